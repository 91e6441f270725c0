// What TLS 1.3 and keys cost of whole work: a step of T1 on two PNodes, and generation over two, by the CPU time of all processes,
// beside the same program in plain text (plain/hook.ts). The two take turns, so that a busy machine disturbs them alike.

import { setTimeout as sleep } from "node:timers/promises";
import { outlookOf } from "../src/core/errors.ts";
import { cpuMsOf, Lab, trained } from "./lab.ts";
import { median } from "./side.ts";
import { makeSpeaker, serveSpeaker, speakerSize, speakerTokens } from "./speaker.ts";

type Labs = Readonly<Record<"plain" | "encrypted", Lab>>;

/** CPU milliseconds for one step or token, by turns. */
interface Measured {
  readonly what: string;
  readonly target: string;
  readonly turns: readonly { readonly plain: number; readonly encrypted: number }[];
}

const stepsPerTurn = 4;
const microbatches = 8;
const checkpointEvery = 20;
const promptTokens = 16;
const answerTokens = 64;
const answersPerTurn = 6;
const idleMs = 6_000;
const attemptsMax = 60;
const attemptMs = 5_000;

async function inTurns(turns: number, log: (line: string) => void, one: (side: keyof Labs) => Promise<number>) {
  const measured: { plain: number; encrypted: number }[] = [];
  for (let turn = 0; turn < turns; turn++) {
    // Who is first changes, in case that what else the machine does grows or fades.
    const order = turn % 2 === 0 ? (["plain", "encrypted"] as const) : (["encrypted", "plain"] as const);
    const both = { plain: 0, encrypted: 0 };
    for (const side of order) both[side] = await one(side);
    measured.push(both);
    log(JSON.stringify(both));
  }
  return measured;
}

async function steps(labs: Labs, turns: number, log: (line: string) => void): Promise<Measured> {
  const settings = { batch: trained.t1.samples * microbatches, microbatches, checkpointEvery, spread: 2 };
  const sessions = { plain: "", encrypted: "" };
  for (const side of ["plain", "encrypted"] as const) {
    await labs[side].prepare("t1");
    sessions[side] = await labs[side].ready("t1", settings);
  }
  const measured = await inTurns(turns, log, async (side) => {
    const { cpuMs, orchestratorCpuMs, steps: count } = await labs[side].stretch(sessions[side], stepsPerTurn);
    return (cpuMs + orchestratorCpuMs) / count;
  });
  for (const side of ["plain", "encrypted"] as const) await labs[side].client.sessions.delete(sessions[side]);
  const what = `a step of T1, ${microbatches} microbatches, checkpoints every ${checkpointEvery} steps`;
  return { what, target: "<= 5 %", turns: measured };
}

async function generation(labs: Labs, turns: number, log: (line: string) => void): Promise<Measured> {
  const speaker = await makeSpeaker();
  const cpuMsPerToken = async (side: keyof Labs): Promise<number> => {
    const { client, orchestrator, pnodes } = labs[side];
    const pids = [orchestrator, ...pnodes].map(({ pid }) => pid);
    // What the three do whether somebody asks or not (heartbeats, gossip) goes by the clock: on a busy machine, where an answer takes
    // twenty times as long, it would be most of what is measured.
    const idle = cpuMsOf(pids);
    await sleep(idleMs);
    const idleShare = (cpuMsOf(pids) - idle) / idleMs;
    const before = cpuMsOf(pids);
    const beganMs = performance.now();
    let tokens = 0;
    for (let seed = 0; seed < answersPerTurn; seed++) {
      const asked = { maxTokens: answerTokens, seed };
      for await (const _ of client.generate(speakerSize.name, speakerTokens(promptTokens), asked)) tokens++;
    }
    return (cpuMsOf(pids) - before - idleShare * (performance.now() - beganMs)) / tokens;
  };
  for (const side of ["plain", "encrypted"] as const) {
    await serveSpeaker(speaker, labs[side].client, 2);
    await whenThere(() => cpuMsPerToken(side));
  }
  const measured = await inTurns(turns, log, cpuMsPerToken);
  const what = `a token of a decoder of ${speakerSize.blocks} blocks, one request at a time, beyond what is computed while nobody asks`;
  return { what, target: "<= 10 %", turns: measured };
}

/** On a busy machine a model that has just been placed may still load. */
async function whenThere(ask: () => Promise<unknown>): Promise<void> {
  for (let attempt = 1; ; attempt++) {
    try {
      await ask();
      return;
    } catch (thrown) {
      if (attempt >= attemptsMax || outlookOf(thrown) !== "passing") throw thrown;
      await sleep(attemptMs);
    }
  }
}

const works = { steps, generation };
type Work = keyof typeof works;

export const encryptedWorks = Object.keys(works) as readonly Work[];
export const isEncryptedWork = (word: string): word is Work => word in works;

export async function encryptedWorkReport(
  chosen: readonly Work[],
  turns: number,
  log: (line: string) => void,
): Promise<string> {
  const labs: Labs = { plain: await Lab.open(2, 1, "plain"), encrypted: await Lab.open(2, 1) };
  const rows: Measured[] = [];
  try {
    for (const work of chosen) rows.push(await works[work](labs, turns, log));
  } finally {
    for (const lab of Object.values(labs)) await lab.close();
  }
  return [
    `CPU time of whole work over two PNodes, PNodes and orchestrator together: the program as it is, and the same with plain text on every connection, ${turns} turns.`,
    "",
    "| what | plain | TLS and keys | TLS / plain, median of turns (least to most) | target |",
    "|---|---|---|---|---|",
    ...rows.map(({ what, target, turns: measured }) => {
      const ratios = measured.map(({ plain, encrypted }) => encrypted / plain).toSorted((a, b) => a - b);
      const [least, most] = [ratios[0], ratios.at(-1)].map((ratio) => (ratio as number).toFixed(3));
      const ms = (side: keyof Labs) => `${median(measured.map((one) => one[side])).toFixed(1)} ms`;
      return `| ${what} | ${ms("plain")} | ${ms("encrypted")} | ${median(ratios).toFixed(3)} (${least} to ${most}) | ${target} |`;
    }),
  ].join("\n");
}
