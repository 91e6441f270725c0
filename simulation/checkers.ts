// What must hold in every run, however faulty. Each checker watches one thing and says in a sentence what is
// wrong with it; it knows record formats, but nothing of how they came about.

import type { AcceptedWrite } from "./store.ts";

export type ViolationKind = "divergence" | "hang" | "fence" | "durable" | "line" | "samples" | "memory" | "error";

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

export interface VNodeRecord {
  readonly epoch: number;
  readonly owner: string;
  readonly replicas?: readonly string[];
  readonly durable: Readonly<Record<string, string>>;
}

/**
 * The fence: per (VNode, epoch) one owner; epochs only grow; another owner needs another epoch; and a durable write
 * is accepted only from whom the record names for that epoch. Determinism would hide a missing fence.
 */
export class FenceChecker {
  readonly #violations: Violations;
  readonly #hosts = new Map<string, ReadonlySet<string>>();
  readonly #records = new Map<string, VNodeRecord>();

  constructor(violations: Violations) {
    this.#violations = violations;
  }

  /** A VNode's record was written. */
  wrote(atMs: number, key: string, record: VNodeRecord): void {
    const before = this.#records.get(key);
    this.#records.set(key, record);
    const add = (kind: ViolationKind, message: string) => this.#violations.add(kind, atMs, `${key}: ${message}`);
    const hosts = new Set([record.owner, ...(record.replicas ?? [])]);
    const known = this.#hosts.get(`${key}@${record.epoch}`);
    this.#hosts.set(`${key}@${record.epoch}`, known === undefined ? hosts : new Set([...known, ...hosts]));
    if (before === undefined) return;
    if (record.epoch < before.epoch) add("fence", `the epoch went back from ${before.epoch} to ${record.epoch}`);
    if (record.epoch === before.epoch && record.owner !== before.owner)
      add("fence", `the owner changed from ${before.owner} to ${record.owner} within epoch ${record.epoch}`);
    for (const [step, hash] of Object.entries(record.durable)) {
      const earlier = before.durable[step];
      if (earlier !== undefined && earlier !== hash)
        add("durable", `the durable state of step ${step} changed from ${short(earlier)} to ${short(hash)}`);
    }
  }

  /** An orchestrator told a PNode that its checkpoint was accepted. */
  accepted(atMs: number, key: string, pnode: string, epoch: number): void {
    const hosts = this.#hosts.get(`${key}@${epoch}`);
    if (hosts?.has(pnode)) return;
    const owners = hosts === undefined ? "nobody" : [...hosts].join(", ");
    this.#violations.add(
      "fence",
      atMs,
      `${key}: a checkpoint of ${pnode} was accepted in epoch ${epoch}, which belongs to ${owners}`,
    );
  }

  /** The recovery line must be durable at every VNode when it is announced. */
  line(atMs: number, line: number, keys: readonly string[]): void {
    if (line === 0) return;
    for (const key of keys)
      if (this.#records.get(key)?.durable[String(line)] === undefined)
        this.#violations.add("line", atMs, `the line ${line} is not durable at ${key}`);
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

export function vnodeRecordOf(write: AcceptedWrite): VNodeRecord | undefined {
  if (write.after === undefined) return undefined;
  const record = JSON.parse(write.after) as VNodeRecord;
  return { ...record, durable: record.durable ?? {} };
}

function short(hash: string | undefined): string {
  return hash === undefined ? "absent" : hash.slice(0, 12);
}
