// Spoiled samples for every parser and drawn messages for every RPC, as many as asked for, all from one seed.

import { SeededChance } from "../../simulation/world/chance.ts";
import { openAskedParsers } from "./asked-parsers.ts";
import { emptyTally, judge, type Tally } from "./findings.ts";
import { openGateParsers } from "./gate-parsers.ts";
import { openHttpParsers } from "./http-parsers.ts";
import { openLongParsers } from "./long-parsers.ts";
import { spoiled } from "./mutate.ts";
import { openParsers, type Parser } from "./parsers.ts";
import { fuzzServices } from "./services.ts";
import { openToldParsers } from "./told-parsers.ts";
import { openWireParsers } from "./wire-parsers.ts";

export interface FuzzOptions {
  readonly seed: number;
  readonly messages: number;
  /** Only targets whose names contain it. */
  readonly only?: string;
  readonly onProgress?: (tally: Tally) => void;
}

/** Of all inputs; a message to a network at work costs as much as some files. */
const servicesShare = 0.15;

/** Everything that reads bytes from outside. */
export function openAllParsers(): Parser[] {
  const files = [...openParsers(), ...openToldParsers(), ...openAskedParsers()];
  return [...files, ...openWireParsers(), ...openGateParsers(), ...openHttpParsers(), ...openLongParsers()];
}

export async function fuzz({ seed, messages, only = "", onProgress = () => {} }: FuzzOptions): Promise<Tally> {
  const tally = emptyTally();
  const parsers = openAllParsers();
  const chosen = parsers.filter(({ name }) => name.includes(only));
  const turns = Math.min(100, Math.ceil(messages / 4_000));
  // Libraries warn of what they read by printing a part of it.
  const onWarning = ({ name, message }: Error) => {
    if (name === "ExperimentalWarning") return;
    tally.findings.push({
      target: "a warning",
      seed,
      index: tally.inputs,
      message: `${name}: ${message}`.slice(0, 300),
    });
  };
  process.on("warning", onWarning);
  // What nobody catches would have ended the process that it is about.
  const onUncaught = (thrown: unknown) => {
    const message = `nobody catches it: ${thrown instanceof Error ? thrown.stack : String(thrown)}`.slice(0, 500);
    tally.findings.push({ target: "the process", seed, index: tally.inputs, message });
  };
  process.on("unhandledRejection", onUncaught).on("uncaughtException", onUncaught);
  try {
    for (let turn = 0; turn < turns; turn++) {
      const each = ((1 - servicesShare) * messages) / turns / chosen.reduce((sum, one) => sum + shareOf(one), 0);
      for (const parser of chosen)
        await fuzzParser(parser, seed * 1_000 + turn, Math.ceil(each * shareOf(parser)), tally);
      const sent = Math.ceil((servicesShare * messages) / turns);
      if ("services".includes(only)) await fuzzServices(seed * 1_000_000 + turn * 10_000, sent, tally);
      onProgress(tally);
    }
  } finally {
    process.off("warning", onWarning).off("unhandledRejection", onUncaught).off("uncaughtException", onUncaught);
    for (const { close } of parsers) close?.();
  }
  return tally;
}

/** What costs ten times as much as the others gets a quarter as many inputs, and what may take long a fiftieth. */
const shareOf = ({ costly, held }: Parser) => (held ? 0.02 : costly ? 0.25 : 1);

async function fuzzParser(
  { name, samples, parse, heldMsMax, held }: Parser,
  seed: number,
  count: number,
  tally: Tally,
): Promise<void> {
  const chance = new SeededChance(seed, name);
  for (let index = 0; index < count; index++) {
    const [sample, other] = [chance.pick(samples), chance.pick(samples)];
    const bytes = spoiled(sample, chance, other);
    await judge(tally, { target: name, seed, index }, () => parse(bytes), heldMsMax, held);
  }
}
