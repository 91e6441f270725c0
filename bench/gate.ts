// What it costs that a lent machine is several processes (src/protocol/gate): CPU time of a step over two PNodes, gates
// and fronts included, beside the same PNodes without gates (`--unconfined`). The two take turns, so that a busy machine disturbs
// them alike.

import { spawn } from "node:child_process";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { packagePath } from "../src/cli/machine/software.ts";
import { fail } from "../src/core/errors.ts";
import { lentProcesses } from "../test/lent-processes.ts";
import { cpuMsOf, Lab, type Trained, trained } from "./lab.ts";
import { median } from "./side.ts";

const sides = ["alone", "gated"] as const;
type Side = (typeof sides)[number];

const microbatches = 8;
const checkpointEvery = 20;
const stepsPerTurn: Readonly<Record<Trained, number>> = { "gpt-demo": 40, t1: 4 };
const warmTurns = 1;

interface Started {
  readonly lab: Lab;
  readonly gates: readonly number[];
}

/** Joins as a person does: nobody is its parent, so it stands apart unless it keeps all rights. */
async function start(side: Side, directory: string): Promise<Started> {
  const lab = await Lab.open(0, 1);
  const gates: number[] = [];
  for (const name of [`${side}-1`, `${side}-2`]) {
    const own = join(directory, name);
    const words = ["join", lab.orchestrator.address, "--dir", own, "--name", name, "--owner", name, "--cpus", "1"];
    const child = spawn(
      process.execPath,
      [
        packagePath("bin/dcnr.js"),
        ...words,
        "--json",
        "--log-level",
        "error",
        ...(side === "alone" ? ["--unconfined"] : []),
      ],
      { stdio: ["ignore", "pipe", "inherit"] },
    );
    const ended = new Promise<number | null>((resolve) => child.once("exit", (code) => resolve(code)));
    let text = "";
    const facts = await new Promise<{ id: string; address: string }>((resolve, reject) => {
      child.once("exit", () => reject(new Error(`${name} has ended: ${text}`)));
      child.stdout.setEncoding("utf8").on("data", (piece: string) => {
        text += piece;
        try {
          resolve(JSON.parse(text));
        } catch {
          // There is more to come.
        }
      });
    });
    const kill = (signal: NodeJS.Signals) => void child.kill(signal);
    const front = child.pid ?? 0;
    const { gate, pnode = front } = lentProcesses(front);
    lab.pnodes.push({ name, pid: pnode, address: facts.address, id: facts.id, key: undefined, ended, kill });
    if (side === "gated") gates.push(gate ?? fail("internal", `${name} has no gate`), front);
  }
  return { lab, gates };
}

/** `npm run bench -- gate t1 4`: one of the two alone, and how many turns. */
export async function gateReport(args: readonly string[], log: (line: string) => void): Promise<string> {
  const wanted = (Object.keys(stepsPerTurn) as Trained[]).filter((name) => args.includes(name));
  const turns = Number(args.find((word) => /^\d+$/.test(word)) ?? 5);
  const lines: string[] = [];
  for (const name of wanted.length > 0 ? wanted : (Object.keys(stepsPerTurn) as Trained[]))
    lines.push(await stepCost(name, turns, log));
  return [
    "CPU time of a step over two PNodes, 8 microbatches, checkpoints every 20 steps: with gates beside without, TLS and keys on both sides.",
    "",
    "| what | with gates / without, median of turns (least to most) | the gates' own share |",
    "|---|---|---|",
    ...lines,
  ].join("\n");
}

async function stepCost(name: Trained, turns: number, log: (line: string) => void): Promise<string> {
  const directory = await mkdtemp(join(tmpdir(), "dcnr-gates-"));
  const started = { alone: await start("alone", directory), gated: await start("gated", directory) };
  try {
    const samples = trained[name].samples * microbatches;
    const settings = { batch: samples, microbatches, checkpointEvery, spread: 2 };
    const sessions = { alone: "", gated: "" };
    for (const side of sides) {
      await started[side].lab.prepare(name);
      sessions[side] = await started[side].lab.ready(name, settings);
    }
    const shares: number[] = [];
    const gateShares: number[] = [];
    for (let turn = -warmTurns; turn < turns; turn++) {
      const cpu = { alone: 0, gated: 0 };
      let gatesMs = 0;
      for (const side of turn % 2 === 0 ? sides : [...sides].reverse()) {
        const { lab, gates } = started[side];
        const before = cpuMsOf(gates);
        const { cpuMs, steps } = await lab.stretch(sessions[side], stepsPerTurn[name]);
        const own = cpuMsOf(gates) - before;
        cpu[side] = (cpuMs + own) / steps;
        if (side === "gated") gatesMs = own / steps;
      }
      log(JSON.stringify({ turn, ...cpu, gatesMs }));
      if (turn < 0) continue;
      shares.push(cpu.gated / cpu.alone);
      gateShares.push(gatesMs / cpu.gated);
    }
    const range = (values: readonly number[]) =>
      `${median(values).toFixed(3)} (${Math.min(...values).toFixed(3)} to ${Math.max(...values).toFixed(3)}, ${values.length} turns)`;
    return `| ${trained[name].title}, ${samples} samples a step | ${range(shares)} | ${range(gateShares)} |`;
  } finally {
    for (const side of sides) await started[side].lab.close();
    await rm(directory, { recursive: true, force: true });
  }
}
