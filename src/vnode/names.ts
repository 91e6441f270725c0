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

/** The name that `keyOf` wrote; undefined for what it did not. */
export function nameOf(key: string): MessageName | undefined {
  const [, step, microbatch, way, edge] = /^(\d+)\/(-?\d+)\/([fb])\/(.+)$/.exec(key) ?? [];
  if (edge === undefined) return undefined;
  const direction = way === "f" ? "forward" : "backward";
  return { step: Number(step), microbatch: Number(microbatch), edge: edge as EdgeId, direction };
}
