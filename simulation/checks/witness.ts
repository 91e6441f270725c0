// All that is heard of one run (what is written, said and answered) and the checkers that hear it.

import type { ReplicaRecord, SessionRecord } from "../../src/orchestrator/records/sessions.ts";
import type { StepRecord, VNodeRecord } from "../../src/orchestrator/records/vnodes.ts";
import type { AttachRequest, RecordDurableRequest } from "../../src/protocol/gen/dcnr/v1/pnode_pb.ts";
import type { CrewWatch } from "../autonomy.ts";
import type { Site } from "../boot.ts";
import { type RunSettings, reducedBytesOf } from "../draw.ts";
import { isCertain } from "../lies/byzantine-draw.ts";
import { liarName } from "../lies/liar-name.ts";
import type { Answer } from "../world/network.ts";
import type { AcceptedWrite } from "../world/store.ts";
import type { FenceChecker, Violations } from "./checkers.ts";
import { LedgerChecker } from "./ledger.ts";
import { RoomChecker } from "./rooms.ts";
import { RoundChecker } from "./rounds.ts";
import { type Expectation, SessionWatch, WorkloadWatch } from "./session-watch.ts";
import { TrustChecker } from "./trust-checker.ts";
import { TrustCounter } from "./trust-figures.ts";

/** What one step of a session may add while the disk is still writing. */
const retainedSlackBytes = 1_000;

export class Witness {
  readonly #site: Site;
  readonly #settings: RunSettings;
  readonly #expected: Expectation;
  readonly #violations: Violations;
  readonly #crews: CrewWatch;
  readonly #ledger = new LedgerChecker((atMs, message) => this.#violations.add("ledger", atMs, message));
  readonly rooms = new RoomChecker((atMs, message) => this.#violations.add("room", atMs, message));
  readonly trust: TrustChecker;
  /** Records of checkpoints that were accepted. */
  readonly #accepted = new Set<string>();
  readonly sessions = new Map<string, SessionWatch>();
  readonly #replicas = new Map<string, WorkloadWatch>();
  readonly rounds = new Map<string, RoundChecker>();

  constructor(site: Site, settings: RunSettings, expected: Expectation, violations: Violations, crews: CrewWatch) {
    this.#site = site;
    this.#settings = settings;
    this.#expected = expected;
    this.#violations = violations;
    this.#crews = crews;
    const figures = new TrustCounter(site.records, site.behaviours, ({ identity, numericsClass }, step, root) => {
      const right = expected(identity.definition)?.get(numericsClass)?.roots.get(step);
      return right === undefined ? undefined : right === root;
    });
    this.trust = new TrustChecker(site.records, settings, figures, (atMs, message) =>
      violations.add("trust", atMs, message),
    );
  }

  recorded({ request, response, caller, incarnation, sentMs, askedMs }: Answer): void {
    const { nowMs } = this.#site.world.time;
    const { session, vnode, epoch, step, turn, statement } = request as RecordDurableRequest;
    if ((response as { accepted?: boolean }).accepted && statement !== undefined)
      this.trust.stated({ session, vnode, turn: Number(turn), to: Number(statement.to), edges: statement.edges });
    const fence = this.#fenceOf(session);
    const key = `vnode/${session}/${vnode}`;
    // Who called, not who it said it is: a missing fence would take its word. PNodes are named like their hosts.
    const process = `${caller}.${incarnation}`;
    // Honest machines stop when they are refused; the one that lies goes on by its nature.
    const isHonest = caller !== liarName;
    if (isHonest) fence?.asked(sentMs, nowMs, key, process, Number(epoch), Number(step));
    const name = `${key} ${process} ${epoch} ${step}`;
    if ((response as { accepted?: boolean }).accepted) {
      this.#accepted.add(name);
      fence?.accepted(askedMs, nowMs, key, caller, Number(epoch));
    }
    // The network repeats calls: nobody hears the answer to the repetition of one that was accepted.
    else if (!this.#accepted.has(name)) fence?.refused(nowMs, key, process, Number(epoch), Number(step));
  }

  /** What a PNode says on its stream to an orchestrator. */
  told({ event }: Pick<AttachRequest, "event">): void {
    if (event?.case !== "heartbeat") return;
    const { world, retainedBytesMax } = this.#site;
    const usedBytes = Number(event.value.memoryUsedBytes ?? 0n);
    const slack = this.#settings.sessions.reduce(
      (sum, { scenario }) => sum + retainedSlackBytes + reducedBytesOf(scenario),
      0,
    );
    if (usedBytes > 2 * retainedBytesMax + slack)
      this.#violations.add(
        "memory",
        world.time.nowMs,
        `a PNode retains ${usedBytes} bytes, its bound is ${retainedBytesMax}`,
      );
    if (this.#site.behaviours.size > 0) return;
    for (const { name, step, value, vnode, session } of event.value.metrics ?? [])
      this.sessions.get(session)?.metrics.reported(world.time.nowMs, vnode, name, Number(step), value);
  }

  wrote(write: AcceptedWrite): void {
    const { atMs, key, after } = write;
    this.rooms.wrote(write);
    this.#ledger.wrote(write);
    this.trust.wrote(write);
    const [kind, id = ""] = key.split("/");
    if (after === undefined) {
      if (kind === "vnode") this.#fenceOf(id)?.removed(atMs, key);
      return;
    }
    if (kind === "session") this.#wroteSession(atMs, JSON.parse(after) as SessionRecord);
    if (kind === "replica") this.#wroteReplica(atMs, JSON.parse(after) as ReplicaRecord);
    if (kind === "vnode") this.#fenceOf(id)?.wrote(atMs, key, JSON.parse(after) as VNodeRecord);
    if (kind === "round" || kind === "closing") this.roundsOf(id).wrote(kind, JSON.parse(after));
    if (kind === "step") this.sessions.get(id)?.wroteRoots(atMs, JSON.parse(after) as StepRecord);
  }

  /** What is recorded of the rounds of a session. */
  roundsOf(session: string): RoundChecker {
    const known = this.rounds.get(session);
    if (known !== undefined) return known;
    const { time } = this.#site.world;
    const checker = new RoundChecker((message) => this.#violations.add("samples", time.nowMs, message));
    this.rounds.set(session, checker);
    return checker;
  }

  #wroteSession(atMs: number, record: SessionRecord): void {
    const watch =
      this.sessions.get(record.id) ?? new SessionWatch(record, this.#expected, this.#violations, this.#doubts());
    this.sessions.set(record.id, watch);
    watch.wrote(atMs, record);
    this.#crews.wroteLine(atMs, record);
  }

  /** Somebody may lie; only then may what was written change, and only where enough is checked is what is final certain. */
  #doubts(): "none" | "before final" | "all" {
    if (this.#site.behaviours.size === 0) return "none";
    return isCertain(this.#settings) ? "before final" : "all";
  }

  #wroteReplica(atMs: number, record: ReplicaRecord): void {
    const watch = this.#replicas.get(record.id) ?? new WorkloadWatch(record, this.#violations);
    this.#replicas.set(record.id, watch);
    watch.wrote(atMs, record);
  }

  #fenceOf(workload: string): FenceChecker | undefined {
    return (this.sessions.get(workload) ?? this.#replicas.get(workload))?.fence;
  }
}
