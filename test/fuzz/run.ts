// Spoiled samples for every parser and drawn messages for every RPC, as many as asked for, all from one seed.

import { SeededChance } from "../../simulation/world/chance.ts";
import { emptyTally, judge, type Tally } from "./findings.ts";
import { spoiled } from "./mutate.ts";
import { openParsers, type Parser } from "./parsers.ts";
import { fuzzServices } from "./services.ts";
import { openToldParsers } from "./told-parsers.ts";

export interface FuzzOptions {
  readonly seed: number;
  readonly messages: number;
  /** Only targets whose names contain it. */
  readonly only?: string;
  readonly onProgress?: (tally: Tally) => void;
}

/** Half of all go to parsers, half to services. */
export async function fuzz({ seed, messages, only = "", onProgress = () => {} }: FuzzOptions): Promise<Tally> {
  const tally = emptyTally();
  const parsers = [...openParsers(), ...openToldParsers()];
  const chosen = parsers.filter(({ name }) => name.includes(only));
  const turns = Math.min(20, Math.ceil(messages / 4_000));
  try {
    for (let turn = 0; turn < turns; turn++) {
      const each = Math.ceil(messages / 2 / turns / Math.max(1, chosen.length));
      for (const parser of chosen) await fuzzParser(parser, seed * 1_000 + turn, each, tally);
      if ("services".includes(only)) await fuzzServices(seed * 1_000_000 + turn * 10_000, messages / 2 / turns, tally);
      onProgress(tally);
    }
  } finally {
    for (const { close } of parsers) close?.();
  }
  return tally;
}

async function fuzzParser(
  { name, samples, parse, heldMsMax }: Parser,
  seed: number,
  count: number,
  tally: Tally,
): Promise<void> {
  const chance = new SeededChance(seed, name);
  for (let index = 0; index < count; index++) {
    const [sample, other] = [chance.pick(samples), chance.pick(samples)];
    const bytes = spoiled(sample, chance, other);
    await judge(tally, { target: name, seed, index }, () => parse(bytes), heldMsMax);
  }
}
