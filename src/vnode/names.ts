// Names of messages within one session. A message's content is a pure function of its name, which is
// what makes duplicates harmless and replay exact.

import type { EdgeId } from "../core/ids.ts";

export type Direction = "forward" | "backward";

export interface MessageName {
  readonly step: number;
  /** `wholeStep` for values that belong to a whole step (tied weights and their gradients). */
  readonly microbatch: number;
  readonly edge: EdgeId;
  readonly direction: Direction;
}

export const wholeStep = -1;

export function keyOf(name: MessageName): string {
  return `${name.step}/${name.microbatch}/${name.direction === "forward" ? "f" : "b"}/${name.edge}`;
}

/** A content with the hash that names it. Equal names have equal hashes, or somebody computed wrongly. */
export interface Sealed<Payload> {
  /** Empty where nobody has to compare it: what stays on its PNode is not hashed. */
  readonly hash: string;
  readonly payload: Payload;
}
