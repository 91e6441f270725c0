// Rounds on the wire: what machines are told of them is checked before anything is kept of it.

import { fail } from "../../core/errors.ts";
import type { LanePlan, Range, ToldRound } from "../rounds.ts";
import { settingFields as fields } from "./setting-fields.ts";

interface WireShare {
  readonly lane: number;
  readonly steps: bigint;
  readonly class: string;
  readonly samples: readonly bigint[];
}

/** The message Round. */
export interface WireRound {
  readonly round: bigint;
  readonly lanes: readonly WireShare[];
  readonly closed: boolean;
  readonly counted: readonly number[];
}

/** So many are told at once at most, and so many ranges of samples of one lane: more would be an attack. */
const roundsMax = 64;
const rangesMax = 10_000;
const classLengthMax = 200;

export function roundToWire({ round, lanes, counted }: ToldRound) {
  return {
    round: BigInt(round),
    lanes: lanes.map(({ lane, steps, class: own, samples }) => ({
      ...{ lane, steps: BigInt(steps), class: own },
      samples: samples.flat().map(BigInt),
    })),
    closed: counted !== undefined,
    counted: [...(counted ?? [])],
  };
}

export function roundsFromWire(rounds: readonly WireRound[]): ToldRound[] {
  if (rounds.length > roundsMax) refuse(`${rounds.length} rounds at once: at most ${roundsMax}`);
  return rounds.map(({ round, lanes, closed, counted }) => {
    if (lanes.length > fields.lanes.most) refuse(`a round of ${lanes.length} lanes`);
    const plans = lanes.map(laneFromWire);
    const isCounted = counted.every(
      (lane, at) => plans.some((one) => one.lane === lane) && !counted.includes(lane, at + 1),
    );
    if (closed && (counted.length === 0 || !isCounted)) refuse("a round in which other lanes count than learn");
    return { round: whole(round), lanes: plans, ...(closed && { counted: [...counted] }) };
  });
}

function laneFromWire({ lane, steps, class: own, samples }: WireShare): LanePlan {
  if (
    lane >= fields.lanes.most ||
    own.length > classLengthMax ||
    samples.length % 2 !== 0 ||
    samples.length > 2 * rangesMax
  )
    refuse("a lane of a round that cannot be");
  const numbers = samples.map(whole);
  const ranges = Array.from(
    { length: numbers.length / 2 },
    (_, at): Range => [numbers[2 * at] ?? 0, numbers[2 * at + 1] ?? 0],
  );
  return { lane, steps: whole(steps), class: own, samples: ranges };
}

function whole(value: bigint): number {
  return value <= BigInt(Number.MAX_SAFE_INTEGER) ? Number(value) : refuse(`a number of ${value}`);
}

function refuse(what: string): never {
  return fail("data_loss", `what was told of rounds is not possible: ${what}`);
}
