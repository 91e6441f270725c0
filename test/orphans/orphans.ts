// Real processes without orchestrators: trains undisturbed, then again while all orchestrators are killed at a random step
// and a random PNode after them. Each session must end by itself with the undisturbed root, and an orchestrator that is
// started afterwards must show it done.

import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Fleet, type Member, pause } from "../chaos/fleet.ts";
import { Training } from "../chaos/training.ts";

export interface OrphansOptions {
  readonly pnodes: number;
  readonly orchestrators: number;
  readonly steps: number;
  readonly rounds: number;
  readonly seed: number;
  readonly print: (line: string) => void;
}

export interface OrphansReport {
  readonly root: string;
  readonly wrongRoots: readonly string[];
  /** From a PNode's death to the first step beyond the newest before it, without orchestrators. */
  readonly recoveryMs: readonly number[];
  /** What autonomy costs, as the orchestrator shows it: bytes to others of the crew for each checkpoint of the session. */
  readonly keptBytes: number;
}

/** A session in which no VNode comes to a newer step for so long stands still: on a busy machine a replay takes a minute. */
const standsStillMs = 3 * 60_000;
/** However slow the machine: what never ends hangs too. */
const roundTimeoutMs = 30 * 60_000;
const lookMs = 50;
/** Those who are left have room for what a lost one hosted. */
const memory = "300MB";

export async function orphans(options: OrphansOptions): Promise<OrphansReport> {
  const directory = await mkdtemp(join(tmpdir(), "dcnr-orphans-"));
  const fleet = await Fleet.start({ directory, memory, ...options });
  const chance = chanceOf(options.seed);
  const recoveryMs: number[] = [];
  const wrongRoots: string[] = [];
  let keptBytes = 0;
  try {
    const training = new Training(fleet.addresses);
    await training.prepare();
    const { root } = await training.round("calm", options.steps);
    options.print(`undisturbed: root ${root}`);
    for (let number = 1; number <= options.rounds; number++) {
      const round = new OrphanRound(fleet, options.steps, chance);
      const disturbed = await training.round(`alone-${number}`, options.steps, AbortSignal.timeout(roundTimeoutMs), {
        autonomy: "on",
        spread: options.pnodes,
        onLook: (session) => {
          keptBytes = Math.max(keptBytes, Number(session.keptBytesPerCheckpoint));
          round.look(Number(session.step), session.id);
        },
        between: () => round.disturbance,
      });
      const { killedAtStep, recoveredMs, victim } = round;
      if (recoveredMs !== undefined) recoveryMs.push(recoveredMs);
      if (disturbed.root !== root) wrongRoots.push(disturbed.root);
      const after =
        recoveredMs === undefined ? "it had nothing left to do" : `progress after ${Math.round(recoveredMs)} ms`;
      options.print(
        `round ${number}: orchestrators killed at step ${killedAtStep}, then ${victim}, ${after}; root ${disturbed.root}`,
      );
    }
    return { root, wrongRoots, recoveryMs, keptBytes };
  } finally {
    await fleet.stop();
    await rm(directory, { recursive: true, force: true });
  }
}

class OrphanRound {
  readonly #fleet: Fleet;
  readonly #steps: number;
  readonly #chance: () => number;
  readonly #killAt: number;
  killedAtStep = -1;
  recoveredMs: number | undefined;
  victim = "";
  /** Settles when orchestrators are back. */
  disturbance: Promise<void> | undefined;

  constructor(fleet: Fleet, steps: number, chance: () => number) {
    this.#fleet = fleet;
    this.#steps = steps;
    this.#chance = chance;
    this.#killAt = Math.floor(steps * (0.1 + 0.3 * chance()));
  }

  look(step: number, session: string): void {
    if (this.disturbance !== undefined || step < this.#killAt) return;
    this.killedAtStep = step;
    this.disturbance = this.#disturb(session);
  }

  async #disturb(session: string): Promise<void> {
    const orchestrators = this.#fleet.members.filter(({ role }) => role === "orchestrator");
    await Promise.all(orchestrators.map((one) => this.#fleet.kill(one)));
    await pause(4_000 * this.#chance());
    const before = await this.#newest(session);
    const busy = [...(await this.#stepsOf(session))].flatMap(([pnode, own]) => (own.length > 0 ? [pnode] : []));
    const victim = busy[Math.floor(this.#chance() * busy.length)] as Member;
    this.victim = victim.name;
    const killedMs = performance.now();
    await this.#fleet.kill(victim);
    let progress = { step: -1, sinceMs: killedMs };
    for (;;) {
      const steps = await this.#stepsOf(session);
      const newest = Math.max(-1, ...[...steps.values()].flat());
      if (newest > progress.step) progress = { step: newest, sinceMs: performance.now() };
      if (this.recoveredMs === undefined && newest > before + 1) this.recoveredMs = performance.now() - killedMs;
      if (this.#isEnded(steps)) break;
      if (performance.now() - progress.sinceMs > standsStillMs)
        throw new Error(
          `without orchestrators the session stands still at step ${progress.step}: ${whereabouts(steps)}`,
        );
      await pause(lookMs);
    }
    await Promise.all([...orchestrators, victim].map((one) => this.#fleet.upAgain(one)));
  }

  async #newest(session: string): Promise<number> {
    return Math.max(-1, ...[...(await this.#stepsOf(session)).values()].flat());
  }

  /** All VNodes have come to the last step; when the crew holds their states there, it lets them go. */
  #isEnded(steps: ReadonlyMap<Member, readonly number[]>): boolean {
    const all = [...steps.values()].flat();
    this.#most = Math.max(this.#most, all.length);
    this.#hasSeenEnd ||= all.some((step) => step === this.#steps);
    const isLetGo = all.length === 0 && this.#hasSeenEnd && steps.size === this.#living.length;
    return isLetGo || (all.length === this.#most && all.every((step) => step === this.#steps));
  }

  #most = 1;
  #hasSeenEnd = false;

  get #living(): Member[] {
    return this.#fleet.members.filter(({ role, child }) => role === "pnode" && child !== undefined);
  }

  /** What PNodes say by themselves, from their metrics; those that do not answer in time are left out. */
  async #stepsOf(session: string): Promise<Map<Member, number[]>> {
    const steps = new Map<Member, number[]>();
    await Promise.all(
      this.#living.map(async (pnode) => {
        const text = await fetch(`http://${pnode.child?.address}/metrics`, { signal: AbortSignal.timeout(2_000) })
          .then((response) => response.text())
          .catch(() => undefined);
        if (text === undefined) return;
        const own = [...text.matchAll(/^dcnr_vnode_step\{(.*)\} (\d+)$/gm)]
          .filter(([, labels]) => labels?.includes(`session="${session}"`))
          .map(([, , step]) => Number(step));
        steps.set(pnode, own);
      }),
    );
    return steps;
  }
}

/** `pnode-1 7 8, pnode-2 8`: the steps of what each hosts. */
function whereabouts(steps: ReadonlyMap<Member, readonly number[]>): string {
  const named = Array.from(steps, ([{ name }, own]) => [name, ...own.toSorted((a, b) => a - b)].join(" "));
  return named.sort().join(", ");
}

/** Small, seeded and good enough to choose victims. */
function chanceOf(seed: number): () => number {
  let state = seed >>> 0;
  return () => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    return state / 2 ** 32;
  };
}
