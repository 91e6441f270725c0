// What heartbeats carry beyond life itself: metrics, failed VNodes, damaged states, observed speed.

import { parseSha256, type SessionId, type VNodeId } from "../../../core/ids.ts";
import { wholeOf } from "../../../core/whole.ts";
import type { Evidence, Heartbeat, VNodeProgress } from "../../../protocol/gen/dcnr/v1/pnode_pb.ts";
import { lifeLengthMax } from "../../../trust/statement.ts";
import type { Context } from "../../context.ts";
import { pnodeName } from "../../records/names.ts";
import { key } from "../../records/store-keys.ts";
import type { Member, VNodeRecord } from "../../records/vnodes.ts";
import { repairDamage } from "../../sessions/damage.ts";
import type { Rates } from "../../sessions/rates.ts";
import { slowStoringMs } from "../../trust/silence.ts";
import type { MetricPoint, Metrics } from "../../views/metrics.ts";
import { noteFailure } from "../../workloads/failures.ts";
import { contradictedSpeed } from "../believed/claims.ts";
import type { Capacity } from "../capacity/capacity.ts";
import type { Rooms } from "../capacity/rooms.ts";
import type { Attachment } from "./attachment.ts";

const metricsPerHeartbeatMax = 10_000;
/** A checkpoint that a PNode cannot read is looked at this often. */
const damageRecheckMs = 5_000;
/** Smaller steps measure overhead, not speed. */
const observableFlops = 2e9;
const doubtedMax = 10_000;

/** A class and a hash, as src/pnode/rounding.ts writes them. */
const roundingText = /^[a-z]+-[0-9a-f]{12} [0-9a-f]{64}$/;

function classOfRounding(rounding = ""): string {
  return rounding.split(" ")[0] ?? "";
}

export class Heartbeats {
  readonly #context: Context;
  readonly #metrics: Metrics;
  readonly #capacity: Capacity;
  readonly #rates: Rates;
  readonly #rooms: Rooms;
  /** Failures that are being dealt with: heartbeats repeat them. */
  readonly #handled = new Set<string>();
  /** Attachments whose claimed speed was contradicted and told of. */
  readonly #doubted = new Set<string>();

  constructor(context: Context, metrics: Metrics, capacity: Capacity, rates: Rates, rooms: Rooms) {
    this.#context = context;
    this.#metrics = metrics;
    this.#capacity = capacity;
    this.#rates = rates;
    this.#rooms = rooms;
  }

  hear(attachment: Attachment, heartbeat: Heartbeat): void {
    if (heartbeat.metrics.length > 0) this.#take(attachment, heartbeat);
    // Looking after a damaged state costs reading it: only owners may ask for it.
    for (const progress of heartbeat.vnodes)
      if (progress.phase === "failed" && this.#capacity.hosts(attachment.pnode, progress.session as SessionId))
        this.#failed(attachment, progress);
    if (heartbeat.vnodes.length > 0) this.#observe(attachment, heartbeat);
    for (const progress of heartbeat.vnodes) {
      if (progress.life !== "") this.#lives(attachment, progress);
      if (progress.rounding !== "") this.#rounds(attachment, progress);
    }
  }

  /** The first owner of a class says what GPUs of it come to; whoever comes to another hash does not begin (PNodes compare). */
  #rounds({ pnode }: Attachment, { session, vnode, rounding }: VNodeProgress): void {
    if (!roundingText.test(rounding)) return;
    const { mirror, tasks } = this.#context;
    const isNews = ({ members, rounding: known }: VNodeRecord) =>
      members.some((one) => one.pnode === pnode) && classOfRounding(known) !== classOfRounding(rounding);
    const record = mirror.get(key.vnode(session, vnode));
    if (record === undefined || !isNews(record)) return;
    tasks.run(`how ${vnode} is rounded`, () =>
      mirror.update(key.vnode(session, vnode), (current) =>
        current !== undefined && isNews(current) ? { ...current, rounding } : undefined,
      ),
    );
  }

  /** Whoever holds the session's lease may be another orchestrator: what is told of lives is in the VNode's record. */
  #lives({ pnode }: Attachment, { session, vnode, life: name, storingMs }: VNodeProgress): void {
    const { mirror, tasks } = this.#context;
    const told = { life: name.slice(0, lifeLengthMax), isStoring: storingMs > slowStoringMs };
    const isNews = (member: Member | undefined) =>
      member !== undefined && (member.told?.life !== told.life || member.told.isStoring !== told.isStoring);
    const memberIn = (record: VNodeRecord | undefined) => record?.members.find((one) => one.pnode === pnode);
    if (!isNews(memberIn(mirror.get(key.vnode(session, vnode))))) return;
    tasks.run(`the life of ${vnode}`, () =>
      mirror.update(key.vnode(session, vnode), (current) => {
        if (current === undefined || !isNews(memberIn(current))) return undefined;
        const members = current.members.map((one) => (one.pnode === pnode ? { ...one, told } : one));
        return { ...current, members };
      }),
    );
  }

  #take(attachment: Attachment, heartbeat: Heartbeat): void {
    const bySession = new Map<string, MetricPoint[]>();
    for (const metric of heartbeat.metrics.slice(0, metricsPerHeartbeatMax)) {
      const session = metric.session || this.#sessionOf(attachment, metric.vnode);
      if (session === undefined || !this.#learns(attachment, session as SessionId)) continue;
      const point = { name: metric.name, step: wholeOf(metric.step), value: metric.value, vnode: metric.vnode };
      const points = bySession.get(session);
      if (points) points.push(point);
      else bySession.set(session, [point]);
    }
    for (const [session, points] of bySession) {
      this.#metrics.add(session, points);
      this.#rates.note(session, points);
    }
  }

  /** Replicas have no metrics. */
  #learns(attachment: Attachment, session: SessionId): boolean {
    return (
      this.#context.mirror.get(key.session(session)) !== undefined && this.#capacity.hosts(attachment.pnode, session)
    );
  }

  #sessionOf(attachment: Attachment, vnode: string): string | undefined {
    for (const progress of attachment.progress.values())
      if (progress.vnode === vnode || vnode === "") return progress.session;
    return undefined;
  }

  #failed(attachment: Attachment, progress: VNodeProgress): void {
    const name = `${progress.session}/${progress.vnode}/${progress.epoch}/${attachment.pnode}/${progress.damagedState}`;
    if (this.#handled.has(name)) return;
    this.#handled.add(name);
    const session = progress.session as SessionId;
    const vnode = progress.vnode as VNodeId;
    this.#context.tasks.run(`the failure of ${vnode}`, async () => {
      try {
        if (progress.damagedState) {
          await repairDamage(this.#context, session, vnode, parseSha256(progress.damagedState, "the damaged state"));
          // A blob that was whole may be damaged later.
          this.#context.tasks.after(damageRecheckMs, () => this.#handled.delete(name));
        } else
          await noteFailure(this.#context, this.#rooms, {
            workload: session,
            vnode,
            pnode: attachment.pnode,
            epoch: wholeOf(progress.epoch),
            detail: progress.detail.slice(0, 300),
            kind: progress.noRoom ? "noRoom" : "failed",
          });
      } catch (thrown) {
        this.#handled.delete(name);
        throw thrown;
      } finally {
        if (this.#handled.size > 10_000) this.#handled.clear();
      }
    });
  }

  /** A PNode's own work shows its speed, and that is what counts; a claim far above it is told. */
  #observe(attachment: Attachment, heartbeat: Heartbeat): void {
    let fastest = 0;
    const own = this.#capacity.vnodesOn(attachment.pnode);
    for (const { session, vnode, stepMs } of heartbeat.vnodes) {
      if (!(stepMs > 0) || !own.has(key.vnode(session, vnode))) continue;
      const flops = this.#context.mirror.get(key.vnode(session, vnode))?.flops ?? 0;
      if (flops >= observableFlops) fastest = Math.max(fastest, flops / stepMs / 1e6);
    }
    if (fastest === 0) return;
    this.#capacity.observeSpeed(attachment.pnode, fastest);
    const record = this.#context.mirror.get(key.pnode(attachment.pnode));
    const warning = record && contradictedSpeed(record.facts.gflops, fastest * record.facts.cores);
    if (!record || !warning || this.#doubted.has(attachment.nonce)) return;
    this.#doubted.add(attachment.nonce);
    if (this.#doubted.size > doubtedMax) this.#doubted.clear();
    this.#context.events.emit("warn", "pnode.claim", `PNode ${record.name} ${warning}`, { pnode: record.id });
    this.#context.tasks.run(`noting a claim of ${record.id}`, () =>
      this.#context.mirror.update(key.pnode(record.id), (current) =>
        current ? { ...current, warnings: [...current.warnings, warning].slice(-5) } : undefined,
      ),
    );
  }

  /** Told only of sessions in which the witness has a part: others saw nothing. */
  evidence(attachment: Attachment, evidence: Evidence): void {
    const { name, first, second } = evidence;
    if (!name || !this.#capacity.hosts(attachment.pnode, name.session as SessionId)) return;
    const called = (pnode: string | undefined) => pnodeName(this.#context.mirror, pnode ?? "?");
    const short = (hash: string | undefined) => `${hash?.slice(0, 12) ?? "?"}…`;
    this.#context.events.emit(
      "error",
      "evidence",
      `PNode ${called(attachment.pnode)} saw two contents of edge ${name.edge}, step ${name.step}: ${short(first?.hash)} from ${called(first?.pnode)} and ${short(second?.hash)} from ${called(second?.pnode)}`,
      { session: name.session, pnode: attachment.pnode, step: wholeOf(name.step) },
    );
  }
}
