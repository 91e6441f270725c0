// Everything that is watched about one training session or one replica of a simulated world: owners and status of both,
// and a session's roots, metrics and line.

import type { Sha256 } from "../../src/core/ids.ts";
import type { SessionRecord, WorkloadRecord } from "../../src/orchestrator/records/sessions.ts";
import type { StepRecord } from "../../src/orchestrator/records/vnodes.ts";
import { called, ownersWanted } from "../../src/orchestrator/records/workloads.ts";
import { vnodesAt } from "../../src/orchestrator/sessions/line.ts";
import { FenceChecker, MetricChecker, RootChecker, type Violations } from "./checkers.ts";

/** What a session comes to. */
export interface Result {
  readonly roots: ReadonlyMap<number, string>;
  readonly metrics: ReadonlyMap<string, number>;
  readonly answers: Answers;
}

/** What a model answers to each question: tokens, or the numbers of a vector. */
export type Answers = ReadonlyMap<number, readonly number[]>;

/** Also what it answers in other classes than the one that it learned in, by class. */
export type Expected = Pick<Result, "roots" | "metrics"> & { readonly answers: ReadonlyMap<string, Answers> };

/** What a network comes to undisturbed, by numerics class; undefined where that is what the run is to find out. */
export type Expectation = (definition: Sha256) => ReadonlyMap<string, Expected> | undefined;

/** Which results may be wrong for a while, or for good. */
export type Doubts = "none" | "before final" | "all";

/** What is watched of every workload: all of it for a replica. */
export class WorkloadWatch<R extends WorkloadRecord = WorkloadRecord> {
  readonly id: R["id"];
  readonly fence: FenceChecker;
  readonly violations: Violations;
  #record: R;

  constructor(record: R, violations: Violations, mayChange = false) {
    this.id = record.id;
    this.#record = record;
    this.violations = violations;
    this.fence = new FenceChecker(violations, ownersWanted(record), mayChange);
  }

  get status(): WorkloadRecord["status"] {
    return this.#record.status;
  }

  get reason(): string {
    return this.#record.reason;
  }

  wrote(atMs: number, record: R): void {
    this.#record = record;
    const { id, status, reason } = record;
    if (status === "failed") this.violations.add("error", atMs, `${called(id)} failed: ${reason}`);
    if (status === "waiting" && reason === "")
      this.violations.add("wait", atMs, `${called(id)} waits and nothing says for what`);
  }
}

export class SessionWatch extends WorkloadWatch<SessionRecord> {
  readonly roots = new Map<number, string>();
  readonly metrics: MetricChecker;
  readonly #expected: ReadonlyMap<string, Expected> | undefined;
  /** Of the class that the session computes in; another may take over before its first checkpoint. */
  #checked: { readonly numericsClass: string; readonly roots: RootChecker } | undefined;

  /** Somebody may lie: only what is final in the end has to be right, or not even that. */
  readonly #doubts: Doubts;
  #newest: SessionRecord;

  constructor(record: SessionRecord, expected: Expectation, violations: Violations, doubts: Doubts = "none") {
    super(record, violations, doubts !== "none");
    this.#doubts = doubts;
    this.#newest = record;
    this.#expected = expected(record.identity.definition);
    const metrics = Array.from(this.#expected?.values() ?? [], (result) => result.metrics);
    this.metrics = new MetricChecker(metrics, violations);
  }

  override wrote(atMs: number, record: SessionRecord): void {
    super.wrote(atMs, record);
    const before = this.#newest;
    this.#newest = record;
    if ((record.final ?? 0) < (before.final ?? 0))
      this.violations.add("trust", atMs, `final went from ${before.final} back to ${record.final}`);
    const { id, line, numericsClass } = record;
    if ((record.eras?.length ?? 0) > (before.eras?.length ?? 0)) this.metrics.eraBegan(line);
    this.fence.line(
      atMs,
      line,
      vnodesAt(record, line).map((vnode) => `vnode/${id}/${vnode}`),
    );
    if (numericsClass !== this.#checked?.numericsClass) this.#follow(numericsClass);
  }

  wroteRoots(atMs: number, { roots }: StepRecord): void {
    for (const { step, root } of roots) {
      this.roots.set(step, root);
      if (this.#doubts === "none") this.#checked?.roots.root(atMs, step, root);
    }
  }

  /** `isSeen`: all that became final was repeated, where its machines lie. */
  finish(atMs: number, isSeen = true): void {
    if (this.status !== "done") return;
    if (this.#doubts === "none") this.#checked?.roots.finish(atMs);
    else if (this.#doubts === "before final" && this.#newest.policy.assurance !== undefined && isSeen)
      this.#finishFinal(atMs);
  }

  /** Whoever lied on the way: what is final is what the undisturbed run comes to. */
  #finishFinal(atMs: number): void {
    const { final = 0, certificate, numericsClass } = this.#newest;
    const expected = this.#expected?.get(numericsClass)?.roots.get(final);
    if (expected !== undefined && certificate?.root !== expected)
      this.violations.add(
        "divergence",
        atMs,
        `final at step ${final} is ${certificate?.root.slice(0, 12)}, undisturbed it is ${expected.slice(0, 12)}`,
      );
  }

  #follow(numericsClass: string): void {
    const expected = this.#expected?.get(numericsClass);
    this.#checked = expected && { numericsClass, roots: new RootChecker(expected.roots, this.violations) };
  }
}
