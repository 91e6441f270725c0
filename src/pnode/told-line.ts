// What orchestrators say about a session's recovery line, wherever they do: the line, its turn, and what is checked below it.
// They come together, so that nobody lets go of messages that an audit needs.

import type { VNodeId } from "../core/ids.ts";
import type { Drawn as ProtoDrawn } from "../protocol/gen/dcnr/v1/trust_pb.ts";
import type { Drawn } from "../vnode/effects.ts";

export interface ToldLine {
  readonly line: number;
  readonly turn: number;
  readonly drawn: readonly Drawn[];
}

interface Told {
  readonly line: bigint;
  readonly turn: bigint;
  readonly drawn: readonly ProtoDrawn[];
}

/** More would be an attack. */
const drawnMax = 100_000;

export function lineOf({ line, turn, drawn }: Told): ToldLine {
  return {
    line: Number(line),
    turn: Number(turn),
    drawn: drawn.slice(0, drawnMax).map((one) => ({
      vnode: one.vnode as VNodeId,
      from: Number(one.from),
      to: Number(one.to),
    })),
  };
}
