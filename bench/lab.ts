// A network of real processes to measure: which step each VNode has reached, asked of the PNodes themselves many times
// a second, and the CPU time that the processes took.

import { readFileSync } from "node:fs";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { t1, transformerYaml } from "../examples/generate.ts";
import { remoteSink } from "../src/cli/content/builtin.ts";
import { type Child, startChild, stopChild } from "../src/cli/machine/processes.ts";
import type { SessionSettingsInit } from "../src/client/calls/sessions.ts";
import { Client } from "../src/client/client.ts";
import { buildTokens } from "../src/data/build.ts";
import { manifestText } from "../src/data/manifest.ts";

const gptDemo = readFileSync(new URL("../examples/gpt-demo.yaml", import.meta.url), "utf8");

/** What the network benchmarks train; `tokens` is the length of a sample. */
export const trained = {
  "gpt-demo": { title: "demo GPT", definition: () => gptDemo, tokens: 64, vocabulary: 512, samples: 4 },
  t1: { title: "T1", definition: () => transformerYaml(t1), tokens: t1.context, vocabulary: t1.vocabulary, samples: 1 },
} as const;

export type Trained = keyof typeof trained;

const plainHook = new URL("plain/hook.ts", import.meta.url).href;

/** Linux counts CPU time in hundredths of a second, whatever the machine. */
const tickMs = 10;

export function cpuMsOf(pids: readonly number[]): number {
  let ticks = 0;
  for (const pid of pids) {
    const text = readFileSync(`/proc/${pid}/stat`, "utf8");
    const fields = text.slice(text.lastIndexOf(")") + 2).split(" ");
    ticks += Number(fields[11]) + Number(fields[12]);
  }
  return ticks * tickMs;
}

export const pause = (ms: number) => new Promise<void>((resolve) => setTimeout(resolve, ms));

export interface Pace {
  readonly stepMs: number;
  /** Of all PNodes together. */
  readonly cpuStepMs: number;
}

/** What happened in a while, or since the beginning. */
export interface Stretch {
  readonly wallMs: number;
  readonly steps: number;
  /** Of all PNodes together. */
  readonly cpuMs: number;
  /** It stores checkpoints. */
  readonly orchestratorCpuMs: number;
  /** Of all VNodes together. */
  readonly dataWaitMs: number;
}

/** Graphs are loaded in the first of them. */
const warmSteps = 3;
/** Until a session that goes on is in full swing, and one that is suspended stands still. */
const swingMs = 500;

export class Lab {
  readonly client: Client;
  readonly orchestrator: Child;
  readonly pnodes: Child[] = [];
  readonly #directory: string;
  readonly #environment: NodeJS.ProcessEnv;
  #started = 0;

  private constructor(directory: string, orchestrator: Child, environment: NodeJS.ProcessEnv) {
    this.#directory = directory;
    this.#environment = environment;
    this.orchestrator = orchestrator;
    this.client = new Client(orchestrator.address, { fetch });
  }

  /** `wires`: in plain text, or as in production. `owner`: of all machines, if they are one person's. */
  static async open(
    pnodes: number,
    cpus: number,
    wires: "plain" | "encrypted" = "encrypted",
    owner?: string,
  ): Promise<Lab> {
    const directory = await mkdtemp(join(tmpdir(), "dcnr-bench-"));
    const listen = ["--listen", "127.0.0.1:0", "--dir", directory, "--log-level", "error"];
    const environment = wires === "plain" ? { NODE_OPTIONS: `--import=${plainHook}` } : {};
    const orchestrator = await startChild("the orchestrator", ["orchestrator", ...listen], environment);
    const lab = new Lab(directory, orchestrator, environment);
    for (let i = 0; i < pnodes; i++) await lab.join(cpus, owner);
    return lab;
  }

  /** Each belongs to somebody else unless an owner is named. Sessions may be told to stay in a region. */
  async join(cpus: number, owner?: string, region = ""): Promise<Child> {
    const name = `bench-${++this.#started}`;
    const own = [
      "--name",
      name,
      "--owner",
      owner ?? name,
      "--dir",
      join(this.#directory, name),
      "--cpus",
      String(cpus),
      ...(region === "" ? [] : ["--region", region]),
    ];
    const args = ["join", this.orchestrator.address, ...own, "--log-level", "error"];
    const child = await startChild(name, args, this.#environment);
    this.pnodes.push(child);
    return child;
  }

  async kill(child: Child): Promise<void> {
    this.pnodes.splice(this.pnodes.indexOf(child), 1);
    child.kill("SIGKILL");
    await child.ended;
  }

  async prepare(name: Trained): Promise<void> {
    const { definition, vocabulary } = trained[name];
    await this.client.networks.create(definition(), { id: name });
    const tokens = buildTokens(vocabulary, { blobs: remoteSink(this.client) });
    await tokens.add(Int32Array.from({ length: 200_000 }, (_, i) => (i * 7919 + (i >> 7)) % vocabulary));
    await this.client.datasets.create(name, manifestText(await tokens.finish()));
  }

  async begin(name: Trained, settings: SessionSettingsInit): Promise<string> {
    const usual: SessionSettingsInit = { network: name, dataset: name, split: "all", seed: 1n };
    const learningRate = { base: 0.001 };
    return (await this.client.sessions.create({ ...usual, ...settings, learningRate } as SessionSettingsInit)).id;
  }

  /** The steps that the session's VNodes have reached, as the PNodes themselves say. */
  async steps(session: string): Promise<Map<string, number>> {
    return stepsIn(await this.#pages(), session);
  }

  /** Waits until every VNode of the session has reached a step; the time at which it was seen. */
  async reached(session: string, vnodes: number, step: number, lookMs = 800): Promise<number> {
    for (;;) {
      const steps = await this.steps(session);
      if (steps.size >= vnodes && [...steps.values()].every((one) => one >= step)) return performance.now();
      const { status, reason } = await this.client.sessions.get(session);
      if (status === "done") return performance.now();
      if (status === "failed") throw new Error(`the session failed: ${reason}`);
      await pause(lookMs);
    }
  }

  /** Trains `steps` steps after `warm` others and deletes the session. */
  async pace(name: Trained, settings: SessionSettingsInit, warm: number, steps: number): Promise<Pace> {
    // Some steps remain when the measuring ends, so that it never sees the end of the session.
    const id = await this.begin(name, { ...settings, steps: BigInt(warm + steps + 1_000) });
    const { vnodes } = await this.client.sessions.get(id);
    const pids = this.pnodes.map(({ pid }) => pid);
    const startMs = await this.reached(id, vnodes, warm);
    const [from, startCpuMs] = [least(await this.steps(id)), cpuMsOf(pids)];
    const endMs = await this.reached(id, vnodes, from + steps);
    const [to, endCpuMs] = [least(await this.steps(id)), cpuMsOf(pids)];
    await this.client.sessions.delete(id);
    return { stepMs: (endMs - startMs) / (to - from), cpuStepMs: (endCpuMs - startCpuMs) / (to - from) };
  }

  /** A session that is suspended after its first steps, to be measured by `window`. */
  async ready(name: Trained, settings: SessionSettingsInit): Promise<string> {
    const id = await this.begin(name, { ...settings, steps: 1_000_000n });
    const { vnodes } = await this.client.sessions.get(id);
    await this.reached(id, vnodes, warmSteps, 300);
    await this.client.sessions.suspend(id);
    return id;
  }

  /** Lets a suspended session train for a while; what is counted begins once it is in full swing. */
  window(session: string, windowMs: number): Promise<Stretch> {
    return this.#stretch(session, () => pause(windowMs));
  }

  /** The same until so many steps are done, however long that takes on a busy machine. */
  stretch(session: string, steps: number): Promise<Stretch> {
    return this.#stretch(session, async (before) => {
      while ((await this.#look(session)).steps < before.steps + steps) await pause(500);
    });
  }

  async #stretch(session: string, until: (before: Stretch) => Promise<void>): Promise<Stretch> {
    await this.client.sessions.start(session);
    await pause(swingMs);
    const before = await this.#look(session);
    await until(before);
    const after = await this.#look(session);
    await this.client.sessions.suspend(session);
    await pause(swingMs);
    return {
      wallMs: after.wallMs - before.wallMs,
      steps: after.steps - before.steps,
      cpuMs: after.cpuMs - before.cpuMs,
      orchestratorCpuMs: after.orchestratorCpuMs - before.orchestratorCpuMs,
      dataWaitMs: after.dataWaitMs - before.dataWaitMs,
    };
  }

  async #look(session: string): Promise<Stretch> {
    const pages = await this.#pages();
    const steps = [...stepsIn(pages, session).values()];
    const waited = pages.map((page) => Number(/^dcnr_pnode_data_wait_seconds_total (\S+)/m.exec(page)?.[1] ?? 0));
    return {
      wallMs: performance.now(),
      // The mean tells parts of a step, since VNodes end theirs one after the other.
      steps: steps.reduce((sum, step) => sum + step, 0) / steps.length,
      cpuMs: cpuMsOf(this.pnodes.map(({ pid }) => pid)),
      orchestratorCpuMs: cpuMsOf([this.orchestrator.pid]),
      dataWaitMs: 1000 * waited.reduce((sum, seconds) => sum + seconds, 0),
    };
  }

  #pages(): Promise<string[]> {
    const page = async (address: string) => (await fetch(`http://${address}/metrics`)).text();
    return Promise.all(this.pnodes.map(({ address }) => page(address).catch(() => "")));
  }

  /** The orchestrator's own, for what a benchmark has to find as if it had run for long. */
  get store(): string {
    return `sqlite:${join(this.#directory, "state.db")}`;
  }

  /** A counter of all PNodes together. */
  async counted(metric: string): Promise<number> {
    const found = (await this.#pages()).map((page) =>
      Number(new RegExp(`^${metric} (\\S+)`, "m").exec(page)?.[1] ?? 0),
    );
    return found.reduce((sum, one) => sum + one, 0);
  }

  async close(): Promise<void> {
    await this.client.close();
    await Promise.all(this.pnodes.map((child) => stopChild(child, 3_000)));
    await stopChild(this.orchestrator, 3_000);
    await rm(this.#directory, { recursive: true, force: true });
  }
}

function stepsIn(pages: readonly string[], session: string): Map<string, number> {
  const steps = new Map<string, number>();
  for (const line of pages.flatMap((page) => page.split("\n"))) {
    const [, of, vnode, value] = /^dcnr_vnode_step\{session="([^"]+)",vnode="([^"]+)"\} (\d+)/.exec(line) ?? [];
    if (of === session) steps.set(vnode as string, Math.max(steps.get(vnode as string) ?? 0, Number(value)));
  }
  return steps;
}

function least(steps: ReadonlyMap<string, number>): number {
  return Math.min(...steps.values());
}
