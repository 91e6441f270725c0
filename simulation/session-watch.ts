// Everything that is watched about one session of a simulated world: its roots, metrics, owners, line and status.
// Served models are sessions to their owners too, without roots.

import type { Sha256 } from "../src/core/ids.ts";
import type { SessionRecord, StepRecord } from "../src/orchestrator/records/records.ts";
import { FenceChecker, MetricChecker, RootChecker, type Violations } from "./checkers.ts";

/** What a session comes to. */
export interface Result {
  readonly roots: ReadonlyMap<number, string>;
  readonly metrics: ReadonlyMap<string, number>;
  /** Tokens that a model trained so answers to each question. */
  readonly answers: ReadonlyMap<number, readonly number[]>;
}

/** What a network comes to undisturbed, by numerics class; undefined where that is what the run is to find out. */
export type Expectation = (definition: Sha256) => ReadonlyMap<string, Result> | undefined;

export class SessionWatch {
  readonly id: string;
  readonly fence: FenceChecker;
  readonly roots = new Map<number, string>();
  readonly metrics: MetricChecker;
  readonly #violations: Violations;
  readonly #expected: ReadonlyMap<string, Result> | undefined;
  #record: SessionRecord;
  /** Of the class that the session computes in; another may take over before its first checkpoint. */
  #checked: { readonly numericsClass: string; readonly roots: RootChecker } | undefined;

  constructor(record: SessionRecord, expected: Expectation, violations: Violations) {
    this.id = record.id;
    this.#record = record;
    this.#expected = record.serving === undefined ? expected(record.identity.definition) : undefined;
    this.#violations = violations;
    this.fence = new FenceChecker(violations, record.policy.replicas);
    const metrics = Array.from(this.#expected?.values() ?? [], (result) => result.metrics);
    this.metrics = new MetricChecker(metrics, violations);
    this.wrote(0, record);
  }

  get isServed(): boolean {
    return this.#record.serving !== undefined;
  }

  get status(): SessionRecord["status"] {
    return this.#record.status;
  }

  get reason(): string {
    return this.#record.reason;
  }

  wrote(atMs: number, record: SessionRecord): void {
    this.#record = record;
    const { id, line, vnodes, status, reason, numericsClass } = record;
    this.fence.line(
      atMs,
      line,
      vnodes.map((vnode) => `vnode/${id}/${vnode}`),
    );
    if (status === "failed") this.#violations.add("error", atMs, `session ${id} failed: ${reason}`);
    if (status === "waiting" && reason === "")
      this.#violations.add("wait", atMs, `session ${id} waits and nothing says for what`);
    if (numericsClass !== this.#checked?.numericsClass) this.#follow(numericsClass);
  }

  wroteRoots(atMs: number, { roots }: StepRecord): void {
    for (const { step, root } of roots) {
      this.roots.set(step, root);
      this.#checked?.roots.root(atMs, step, root);
    }
  }

  finish(atMs: number): void {
    if (this.status === "done") this.#checked?.roots.finish(atMs);
  }

  #follow(numericsClass: string): void {
    const expected = this.#expected?.get(numericsClass);
    this.#checked = expected && { numericsClass, roots: new RootChecker(expected.roots, this.#violations) };
  }
}
