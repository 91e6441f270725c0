// What must hold in every run, however faulty. Each checker watches one thing and says in a sentence what is
// wrong with it; it knows record formats, but nothing of how they came about.

import type { VNodeRecord } from "../../src/orchestrator/records/vnodes.ts";

export type ViolationKind =
  | "divergence"
  | "answer"
  | "wait"
  | "room"
  | "ledger"
  | "hang"
  | "fence"
  | "durable"
  | "line"
  | "samples"
  | "memory"
  | "trust"
  | "error";

export interface Violation {
  readonly kind: ViolationKind;
  readonly atMs: number;
  readonly message: string;
}

export class Violations {
  readonly found: Violation[] = [];

  add(kind: ViolationKind, atMs: number, message: string): void {
    this.found.push({ kind, atMs, message });
  }
}

/** Step roots must be the undisturbed run's: in the end all of them, and none may ever be another. */
export class RootChecker {
  readonly #expected: ReadonlyMap<number, string>;
  readonly #violations: Violations;
  readonly seen = new Map<number, string>();

  constructor(expected: ReadonlyMap<number, string>, violations: Violations) {
    this.#expected = expected;
    this.#violations = violations;
  }

  root(atMs: number, step: number, root: string): void {
    const expected = this.#expected.get(step);
    const before = this.seen.get(step);
    this.seen.set(step, root);
    if (before === root) return;
    if (expected !== root)
      this.#violations.add(
        "divergence",
        atMs,
        `the root of step ${step} is ${short(root)}, undisturbed it is ${short(expected)}`,
      );
  }

  /** At the end: nothing may be missing. */
  finish(atMs: number): void {
    for (const step of this.#expected.keys())
      if (!this.seen.has(step)) this.#violations.add("divergence", atMs, `the root of step ${step} was never written`);
  }
}

/** A time during which a PNode was a member of a VNode. */
interface Membership {
  readonly pnode: string;
  readonly since: number;
  readonly fromMs: number;
  untilMs: number;
}

/**
 * The fence: a VNode has no more members than wanted, they change only with a growing epoch, a state once durable never becomes another, and a checkpoint is
 * accepted only from who is a member at that time, since an epoch not above the one it writes under. Determinism
 * would hide a missing fence, so it is asserted apart.
 */
export class FenceChecker {
  readonly #violations: Violations;
  readonly #memberships = new Map<string, Membership[]>();
  readonly #records = new Map<string, VNodeRecord>();
  readonly #hashes = new Map<string, string>();
  readonly #refused = new Map<string, { readonly step: number; readonly atMs: number }>();

  readonly #ownersMost: number;
  /** What was wrong is computed again, and comes out otherwise. */
  readonly #mayChange: boolean;

  constructor(violations: Violations, ownersMost = 2, mayChange = false) {
    this.#violations = violations;
    this.#ownersMost = ownersMost;
    this.#mayChange = mayChange;
  }

  /** A VNode's record was written. */
  wrote(atMs: number, key: string, record: VNodeRecord): void {
    const before = this.#records.get(key);
    this.#records.set(key, record);
    if (record.members.length > this.#ownersMost)
      this.#violations.add("fence", atMs, `${key} has ${membersOf(record)} where ${this.#ownersMost} would do`);
    this.#follow(atMs, key, record);
    // In a new turn what was taken away is void, and comes out otherwise if another class computes it.
    if ((record.turn ?? 0) > (before?.turn ?? 0))
      for (const [step, { hash }] of Object.entries(before?.durable ?? {}))
        if (record.durable[step]?.hash !== hash) this.#hashes.delete(`${key}@${step}`);
    for (const [step, { hash }] of Object.entries(record.durable)) {
      const earlier = this.#hashes.get(`${key}@${step}`);
      this.#hashes.set(`${key}@${step}`, hash);
      if (earlier !== undefined && earlier !== hash && !this.#mayChange)
        this.#violations.add(
          "durable",
          atMs,
          `${key}: the state of step ${step} changed from ${short(earlier)} to ${short(hash)}`,
        );
    }
    if (before === undefined) return;
    if (record.epoch < before.epoch)
      this.#violations.add("fence", atMs, `${key}: the epoch went back from ${before.epoch} to ${record.epoch}`);
    if (record.epoch === before.epoch && membersOf(record) !== membersOf(before))
      this.#violations.add(
        "fence",
        atMs,
        `${key}: within epoch ${record.epoch} the members changed from ${membersOf(before)} to ${membersOf(record)}`,
      );
  }

  /** A VNode's record was deleted, with its session: another one under its name has nothing to do with it. */
  removed(atMs: number, key: string): void {
    for (const open of this.#memberships.get(key) ?? []) open.untilMs = Math.min(open.untilMs, atMs);
    this.#records.delete(key);
  }

  /** An orchestrator accepted a checkpoint that it was asked to record at `askedMs`. */
  accepted(askedMs: number, atMs: number, key: string, pnode: string, epoch: number): void {
    const allowed = (this.#memberships.get(key) ?? []).some(
      (one) => one.pnode === pnode && one.since <= epoch && one.fromMs <= atMs && one.untilMs >= askedMs,
    );
    if (!allowed)
      this.#violations.add(
        "fence",
        atMs,
        `${key}: a checkpoint of ${pnode} was accepted under epoch ${epoch}, to which it has no right`,
      );
  }

  /** A PNode was told that it may not record; it must stop, so no record of another step may come from it. */
  refused(atMs: number, key: string, pnode: string, epoch: number, step: number): void {
    const name = `${key} ${pnode} ${epoch}`;
    if (!this.#refused.has(name)) this.#refused.set(name, { step, atMs });
  }

  /** A request to record was sent at `sentMs`; an old one that arrives late says nothing. */
  asked(sentMs: number, atMs: number, key: string, pnode: string, epoch: number, step: number): void {
    const refused = this.#refused.get(`${key} ${pnode} ${epoch}`);
    if (refused !== undefined && step > refused.step && sentMs > refused.atMs)
      this.#violations.add(
        "fence",
        atMs,
        `${key}: ${pnode} went on to step ${step} after its record of ${refused.step} was refused`,
      );
  }

  /** A line is announced only of states that were durable at every VNode; damage may take one back at any time. */
  line(atMs: number, line: number, keys: readonly string[]): void {
    if (line === 0) return;
    for (const key of keys)
      if (!this.#hashes.has(`${key}@${line}`))
        this.#violations.add("line", atMs, `the line ${line} was never durable at ${key}`);
  }

  #follow(atMs: number, key: string, record: VNodeRecord): void {
    const all = this.#memberships.get(key) ?? [];
    this.#memberships.set(key, all);
    for (const open of all) if (open.untilMs === Number.POSITIVE_INFINITY) open.untilMs = atMs;
    for (const { pnode, since } of record.members)
      all.push({ pnode, since, fromMs: atMs, untilMs: Number.POSITIVE_INFINITY });
  }
}

function membersOf({ members }: VNodeRecord): string {
  return members.map(({ pnode, incarnation }) => `${pnode} (${incarnation})`).join(", ");
}

/** Losses and norms are as much a function of the session as its weights; speeds are not. */
const decidedMetrics = /loss|accuracy|norm|learning_rate/;

/** Whatever a VNode reports about a step must be what it reports in the undisturbed run. */
export class MetricChecker {
  readonly values = new Map<string, number>();
  readonly #expected: readonly ReadonlyMap<string, number>[];
  readonly #violations: Violations;

  /** `expected`: by each numerics class in which the session may be computed. */
  constructor(expected: readonly ReadonlyMap<string, number>[], violations: Violations) {
    this.#expected = expected;
    this.#violations = violations;
  }

  /** Another class computes what follows a line: it comes to other values. */
  eraBegan(line: number): void {
    for (const key of [...this.values.keys()]) if (Number(key.split(" ").at(-1)) >= line) this.values.delete(key);
  }

  reported(atMs: number, vnode: string, name: string, step: number, value: number): void {
    if (!decidedMetrics.test(name)) return;
    const key = `${vnode} ${name} ${step}`;
    const before = this.values.get(key);
    this.values.set(key, value);
    const allowed = this.#expected.flatMap((values) => values.get(key) ?? []);
    if (allowed.length === 0 && before !== undefined) allowed.push(before);
    if (allowed.length > 0 && !allowed.includes(value))
      this.#violations.add(
        "divergence",
        atMs,
        `${name} of ${vnode || "the session"} in step ${step} is ${value}, undisturbed it is ${allowed[0]}`,
      );
  }
}

/** Every sample of every step exactly once: `used` lists, per step, the samples that were drawn. */
export function checkSamples(used: ReadonlyMap<number, readonly number[]>, samples: number, perStep: number): string[] {
  const problems: string[] = [];
  const order = [...used.entries()].sort(([a], [b]) => a - b);
  let drawn: number[] = [];
  for (const [step, indices] of order) {
    if (indices.length !== perStep) problems.push(`step ${step} used ${indices.length} samples instead of ${perStep}`);
    drawn.push(...indices);
    // Within one pass over the data nothing repeats; a pass ends when all samples were drawn.
    while (drawn.length >= samples) {
      const pass = drawn.slice(0, samples);
      drawn = drawn.slice(samples);
      if (new Set(pass).size !== samples) problems.push(`a pass that ends in step ${step} repeats or misses samples`);
    }
  }
  if (new Set(drawn).size !== drawn.length) problems.push("the last pass repeats a sample");
  return problems;
}

function short(hash: string | undefined): string {
  return hash === undefined ? "absent" : hash.slice(0, 12);
}
