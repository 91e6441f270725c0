// Watches every write of the store in a job world and counts by hand what jobs may have: room for whole gangs and quota are claimed
// before a job runs and as long as it does, no bound is passed, lines never run ahead of what is stored, and in the end every job is
// done with what comes of it where nobody disturbs, and nothing is left claimed.

import type { CohortRecord, JobRecord } from "../../src/orchestrator/records/jobs.ts";
import type { RoomRecord } from "../../src/orchestrator/records/machines.ts";
import type { SessionRecord } from "../../src/orchestrator/records/sessions.ts";
import type { VNodeRecord } from "../../src/orchestrator/records/vnodes.ts";
import { RoomChecker } from "../checks/rooms.ts";
import type { AcceptedWrite } from "../world/store.ts";

/** The newest records, for checks and mutants. */
export class Seen {
  readonly records = new Map<string, object>();

  get<T extends object>(key: string): T | undefined {
    return this.records.get(key) as T | undefined;
  }

  *under<T extends object>(prefix: string): Generator<T> {
    for (const [key, record] of this.records) if (key.startsWith(prefix)) yield record as T;
  }
}

/** Whoever claims room commits within it, or has given up. */
const launchMsMax = 10_000;

interface Claimed {
  readonly session: string;
  readonly vnode: string;
  readonly atMs: number;
  /** Its machine began anew since. */
  lost: boolean;
}

export class JobChecker {
  readonly #seen: Seen;
  readonly #rooms: RoomChecker;
  readonly #isExpected: (job: JobRecord) => boolean;
  /** Room that was claimed and not given back. */
  readonly #claimed = new Map<string, Claimed>();
  readonly violations: string[] = [];

  constructor(seen: Seen, isExpected: (job: JobRecord) => boolean) {
    this.#seen = seen;
    this.#isExpected = isExpected;
    this.#rooms = new RoomChecker((atMs, message) => this.wrong(atMs, message));
  }

  wrong(atMs: number, message: string): void {
    if (this.violations.length < 20) this.violations.push(`${Math.round(atMs)} ms: ${message}`);
  }

  wrote(write: AcceptedWrite): void {
    const { atMs, key, after } = write;
    const before = this.#seen.records.get(key);
    if (after === undefined) this.#seen.records.delete(key);
    else this.#seen.records.set(key, JSON.parse(after) as object);
    this.#rooms.wrote(write);
    const now = this.#seen.records.get(key);
    if (key.startsWith("room/"))
      this.#noteClaims(atMs, before as RoomRecord | undefined, now as RoomRecord | undefined);
    if (now === undefined) return;
    if (key.startsWith("cohort/")) this.#checkQuota(atMs, now as CohortRecord);
    if (key.startsWith("job/")) this.#checkJob(atMs, now as JobRecord, before as JobRecord | undefined);
    if (key.startsWith("session/")) this.#checkLine(atMs, now as SessionRecord);
  }

  #noteClaims(atMs: number, before: RoomRecord | undefined, now: RoomRecord | undefined): void {
    const reborn = before !== undefined && before.life !== now?.life;
    for (const id of Object.keys(before?.claims ?? {})) {
      const claim = this.#claimed.get(id);
      if (reborn && claim) claim.lost = true;
      else if (!now?.claims[id]) this.#claimed.delete(id);
    }
    for (const [id, { session, vnode }] of Object.entries(now?.claims ?? {}))
      if (reborn || !before?.claims[id]) this.#claimed.set(id, { session, vnode, atMs, lost: false });
  }

  /** All borrow and lend without bounds here, so the cohort's own is what its queues have together. */
  #checkQuota(atMs: number, { queues, claims }: CohortRecord): void {
    if (!queues["day"] || !queues["night"]) return;
    const nominal = Object.values(queues).reduce((sum, queue) => sum + (queue.nominal.jobs ?? 0), 0);
    let used = 0;
    for (const [id, { amounts }] of Object.entries(claims)) {
      const job = this.#seen.get<JobRecord>(`job/${id}`);
      // A study is what its trials are.
      const counts = job?.coordinates ? 0 : 1;
      if (amounts.jobs !== counts) this.wrong(atMs, `quota: ${id} counts as ${amounts.jobs} jobs`);
      used += counts;
    }
    if (used > nominal) this.wrong(atMs, `quota: ${used} jobs have claims of ${nominal}`);
    for (const job of this.#seen.under<JobRecord>("job/")) this.#checkStandsOn(atMs, job, claims);
  }

  /** From the commit until its record says otherwise a job has quota of its own epoch. */
  #checkStandsOn(atMs: number, { id, status, queue, epoch }: JobRecord, claims: CohortRecord["claims"]): void {
    if (status === "running" && queue !== "default" && claims[id]?.epoch !== epoch)
      this.wrong(atMs, `quota: ${id} runs and has claimed none`);
  }

  #checkJob(atMs: number, job: JobRecord, before: JobRecord | undefined): void {
    if (job.status !== "running") return;
    this.#checkStandsOn(atMs, job, this.#seen.get<CohortRecord>("cohort/lab")?.claims ?? {});
    if (before?.status !== "running") this.#checkGang(atMs, job);
  }

  /** At the commit there is room for each of its VNodes. A machine may die just then: what was claimed for this start counts. */
  #checkGang(atMs: number, { id, session, demand }: JobRecord): void {
    const vnodes = new Set<string>();
    for (const { session: whose, vnode, lost, atMs: sinceMs } of this.#claimed.values())
      if (whose === session && (!lost || atMs - sinceMs <= launchMsMax)) vnodes.add(vnode);
    if (vnodes.size < (demand?.vnodes ?? 0)) this.wrong(atMs, `gang: ${id} starts with room for ${vnodes.size} VNodes`);
  }

  #checkLine(atMs: number, { id, line, vnodes, status }: SessionRecord): void {
    if (line === 0 || status === "deleted") return;
    for (const vnode of vnodes) {
      const record = this.#seen.get<VNodeRecord>(`vnode/${id}/${vnode}`);
      if (record && !record.durable[String(line)])
        this.wrong(atMs, `line: ${id} is at ${line}, ${vnode} has not stored it`);
    }
  }

  over(ids: ReadonlySet<string>): void {
    const roots = new Set<string>();
    for (const id of ids) {
      const job = this.#seen.get<JobRecord>(`job/${id}`);
      if (job?.status !== "done") this.wrong(0, `${id} ended as ${job?.status}: ${job?.reason}`);
      else if (job.kind === "train") roots.add(job.result?.["root"] ?? "");
      else if (!this.#isExpected(job))
        this.wrong(0, `result: ${id} (${job.kind}) came to ${JSON.stringify(job.result)}`);
    }
    if (roots.size !== 1) this.wrong(0, `roots: ${roots.size} different ones`);
    const left = Object.keys(this.#seen.get<CohortRecord>("cohort/lab")?.claims ?? {});
    if (left.length > 0) this.wrong(0, `leak: quota of ${left.join(", ")} was never given back`);
    const claims = this.#rooms.claims();
    if (claims.length > 0) this.wrong(0, `leak: ${claims.length} claims of room were never given back`);
  }
}
