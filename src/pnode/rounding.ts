// Whether two GPUs round alike where it matters: each runs the graphs of its VNode once on fixed feeds, the hash of what came out is
// stored with the VNode's states, and whoever goes on from one of them must have come to the same. An adapter's name, its driver and a
// small probe cannot promise that: runtimes choose kernels by shapes.

import type { EngineKind } from "../engine/engine.ts";
import { NoRoom } from "./room.ts";

export interface Rounding {
  /** The class that this PNode says an engine of its has. */
  classOf(engine: EngineKind): string | undefined;
  /** By that engine it gives other bits than others of its class; `tried` is the hash of its own. */
  onOther(tried: string, engine: EngineKind): void;
}

/** Whether machines of one class are compared by what they come to in a session's graphs. Exact numerics have one class for all. */
export function isCompared(numerics: string): numerics is "webgpu" | "cuda" {
  return numerics === "webgpu" || numerics === "cuda";
}

export function writeRounding(numericsClass: string, tried: string): string {
  return `${numericsClass} ${tried}`;
}

/** `stored` is that of whoever computed the state. In another class it is another era, whose bits are its own. */
export function refuseOtherRounding(
  engine: EngineKind,
  stored: string,
  own: string | undefined,
  rounding: Rounding,
): void {
  const [theirClass, theirs] = stored.split(" ");
  const [ownClass = "", ours = ""] = (own ?? "").split(" ");
  if (own === undefined || theirClass !== ownClass || theirs === ours) return;
  rounding.onOther(ours, engine);
  throw new NoRoom(
    `this GPU gives other bits in the session's own graphs than the one before it, though both are of the class ${ownClass}`,
  );
}
