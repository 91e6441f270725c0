// Chaos with real processes: train undisturbed, then again and again while a killer sends SIGKILL and SIGSTOP to
// random processes, and compare the roots.

import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { replayed } from "../lanes/replayed.ts";
import { Fleet, type Member, pause } from "./fleet.ts";
import { percentile, rate, recoveryMs } from "./measure.ts";
import { type Lanes, type Round, Training } from "./training.ts";

export interface ChaosOptions {
  readonly orchestrators: number;
  readonly pnodes: number;
  readonly steps: number;
  readonly intervalMs: number;
  /** Rounds go on until both are reached. */
  readonly kills: number;
  readonly durationMs: number;
  readonly seed: number;
  /** One lane if absent. */
  readonly lanes?: Lanes;
  /** What each PNode lends; room for one or two VNodes if absent. */
  readonly memory?: string;
  readonly print: (line: string) => void;
}

export interface ChaosReport {
  readonly kills: number;
  readonly stops: number;
  readonly rounds: number;
  readonly root: string;
  /** Roots of disturbed rounds that are not the undisturbed one's, or not what their records lead to. */
  readonly wrongRoots: readonly string[];
  readonly recoveryMs: { readonly p50: number; readonly p90: number; readonly p99: number; readonly count: number };
  readonly stepsPerSecond: { readonly undisturbed: number; readonly disturbed: number };
}

/** A round that takes longer hangs. */
const roundTimeoutMs = 10 * 60_000;

export async function chaos(options: ChaosOptions): Promise<ChaosReport> {
  const directory = await mkdtemp(join(tmpdir(), "dcnr-chaos-"));
  const fleet = await Fleet.start({ directory, ...options });
  try {
    const training = new Training(fleet.addresses);
    await training.prepare();
    const calm = await training.round("calm", options.steps, undefined, lanesOf(options));
    options.print(`undisturbed: root ${calm.root}, ${rate(calm.log).toFixed(2)} steps/s`);
    const killer = new Killer(fleet, options);
    const rounds = await disturbedRounds(training, killer, options);
    await killer.stop();
    const isElastic = options.lanes?.elastic === "on";
    const wrong: string[] = [];
    for (const { session, root } of rounds) {
      const expected = isElastic ? await recordedRoot(directory, session, options.print) : calm.root;
      if (root !== expected) wrong.push(root);
    }
    return summarise(calm, rounds, killer, wrong);
  } finally {
    await fleet.stop();
    await rm(directory, { recursive: true, force: true });
  }
}

/** Where lanes come and go: what the records of their rounds lead to, trained again in one place. */
async function recordedRoot(directory: string, session: string, print: (line: string) => void): Promise<string> {
  const { rounds, roots } = await replayed(directory, session, ["native"]);
  const late = rounds.reduce((sum, { lanes, counted }) => sum + lanes.length - (counted?.length ?? lanes.length), 0);
  const most = Math.max(...rounds.map(({ lanes }) => lanes.length));
  const resting = rounds.reduce((sum, { lanes }) => sum + most - lanes.length, 0);
  const root = roots.at(-1) ?? "";
  print(`${session}: its records lead to ${root} (${rounds.length} rounds; lanes: ${late} late, ${resting} resting)`);
  return root;
}

async function disturbedRounds(training: Training, killer: Killer, options: ChaosOptions): Promise<Round[]> {
  const rounds: Round[] = [];
  const startMs = performance.now();
  killer.start();
  do {
    const signal = AbortSignal.timeout(roundTimeoutMs);
    const round = await training.round(`round-${rounds.length + 1}`, options.steps, signal, lanesOf(options));
    rounds.push(round);
    options.print(
      `round ${rounds.length}: root ${round.root}, ${rate(round.log).toFixed(2)} steps/s, ${killer.hits.length} signals so far`,
    );
  } while (killer.hits.length < options.kills || performance.now() - startMs < options.durationMs);
  return rounds;
}

function lanesOf({ lanes }: ChaosOptions): { readonly lanes?: Lanes } {
  return lanes === undefined ? {} : { lanes };
}

interface Hit {
  readonly atMs: number;
  readonly signal: "SIGKILL" | "SIGSTOP";
  readonly role: Member["role"];
}

class Killer {
  readonly hits: Hit[] = [];
  readonly #fleet: Fleet;
  readonly #options: ChaosOptions;
  readonly #healing = new Set<Promise<void>>();
  #state: number;
  #stopped = false;
  #loop: Promise<void> = Promise.resolve();

  constructor(fleet: Fleet, options: ChaosOptions) {
    this.#fleet = fleet;
    this.#options = options;
    this.#state = options.seed;
  }

  start(): void {
    this.#loop = (async () => {
      while (!this.#stopped) {
        await pause(this.#options.intervalMs);
        if (!this.#stopped) this.#strike();
      }
    })();
  }

  /** Ends when everything that was hit is back. */
  async stop(): Promise<void> {
    this.#stopped = true;
    await this.#loop;
    await Promise.all(this.#healing);
  }

  #strike(): void {
    const targets = this.#fleet.members.filter(({ busy }) => !busy);
    const target = targets[Math.floor(this.#uniform() * targets.length)];
    if (target === undefined) return;
    const signal = this.#uniform() < 0.7 ? "SIGKILL" : "SIGSTOP";
    this.hits.push({ atMs: performance.now(), signal, role: target.role });
    const healed =
      signal === "SIGKILL"
        ? this.#fleet.killAndRestart(target, 2_000 * this.#uniform())
        : this.#fleet.freeze(target, 500 + 7_500 * this.#uniform());
    const tracked = healed.finally(() => this.#healing.delete(tracked));
    this.#healing.add(tracked);
  }

  #uniform(): number {
    this.#state = (Math.imul(this.#state, 1_664_525) + 1_013_904_223) >>> 0;
    return this.#state / 2 ** 32;
  }
}

function summarise(calm: Round, rounds: readonly Round[], killer: Killer, wrongRoots: readonly string[]): ChaosReport {
  const recoveries = rounds.flatMap(({ log }) =>
    killer.hits.flatMap(({ atMs, role }) => {
      const inRound = atMs >= (log[0]?.atMs ?? 0) && atMs <= (log.at(-1)?.atMs ?? 0);
      const took = role === "pnode" && inRound ? recoveryMs(atMs, log) : undefined;
      return took === undefined ? [] : [took];
    }),
  );
  const steps = rounds.reduce((sum, { log }) => sum + ((log.at(-1)?.step ?? 0) - (log[0]?.step ?? 0)), 0);
  const seconds = rounds.reduce((sum, { log }) => sum + ((log.at(-1)?.atMs ?? 0) - (log[0]?.atMs ?? 0)), 0) / 1000;
  return {
    kills: killer.hits.filter(({ signal }) => signal === "SIGKILL").length,
    stops: killer.hits.filter(({ signal }) => signal === "SIGSTOP").length,
    rounds: rounds.length,
    root: calm.root,
    wrongRoots,
    recoveryMs: {
      p50: percentile(recoveries, 0.5),
      p90: percentile(recoveries, 0.9),
      p99: percentile(recoveries, 0.99),
      count: recoveries.length,
    },
    stepsPerSecond: { undisturbed: rate(calm.log), disturbed: steps / seconds },
  };
}
