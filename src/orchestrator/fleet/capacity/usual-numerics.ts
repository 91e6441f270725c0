// What is computed with where nobody said: the native runtime where a machine has it, which is the fastest; the portable
// engine, which every machine has, where none does.

import type { Fleet } from "../../../scheduler/placement/fleet.ts";

export function usualNumerics(fleet: Pick<Fleet, "classes">): "native" | "portable" {
  // Machines that are not measured yet offer nothing: they say nothing about the fleet either.
  const onlyPortable = fleet.classes("native").length === 0 && fleet.classes("portable").length > 0;
  return onlyPortable ? "portable" : "native";
}
