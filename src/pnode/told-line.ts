// What orchestrators say about a session's recovery line, wherever they do: the line, its turn, and what is checked below it.
// They come together, so that nobody lets go of messages that an audit needs.

import type { VNodeId } from "../core/ids.ts";
import type { ToldRound } from "../network/rounds.ts";
import { roundsFromWire, type WireRound } from "../network/settings/wire-rounds.ts";
import type { Drawn as ProtoDrawn } from "../protocol/gen/dcnr/v1/trust_pb.ts";
import type { Drawn } from "../vnode/effects.ts";

export interface ToldLine {
  readonly line: number;
  readonly turn: number;
  readonly drawn: readonly Drawn[];
  /** Of a session that is elastic: what happens in rounds from the line on. */
  readonly rounds: readonly ToldRound[];
}

interface Told {
  readonly line: bigint;
  readonly turn: bigint;
  readonly drawn: readonly ProtoDrawn[];
  readonly rounds: readonly WireRound[];
}

/** More would be an attack. */
const drawnMax = 100_000;

export function lineOf({ line, turn, drawn, rounds }: Told): ToldLine {
  return {
    line: Number(line),
    turn: Number(turn),
    drawn: drawn.slice(0, drawnMax).map((one) => ({
      vnode: one.vnode as VNodeId,
      from: Number(one.from),
      to: Number(one.to),
    })),
    rounds: roundsFromWire(rounds),
  };
}
