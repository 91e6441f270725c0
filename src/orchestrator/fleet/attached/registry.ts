// PNodes that attach here: serves their streams and performs what is decided about them (standing-step.ts). Heartbeats
// stay in memory; the store hears of a PNode only when something about it changes.

import { unreachable } from "../../../core/assert.ts";
import { fail, messageOf } from "../../../core/errors.ts";
import type { PNodeId } from "../../../core/ids.ts";
import type { LogLevel } from "../../../core/world.ts";
import type { AttachRequest, Evidence, Heartbeat, Register } from "../../../protocol/gen/dcnr/v1/pnode_pb.ts";
import type { CallContext, Channel } from "../../../protocol/network.ts";
import { joinRoutes, shownRoutes } from "../../../protocol/routes/routes.ts";
import type { Context } from "../../context.ts";
import type { PNodeRecord } from "../../records/machines.ts";
import { pnodeName } from "../../records/names.ts";
import { key } from "../../records/store-keys.ts";
import { text } from "../believed/claims.ts";
import type { Flapping } from "../believed/flapping.ts";
import type { Admission } from "../orchestrators/gossip.ts";
import type { Presence } from "../orchestrators/presence.ts";
import { Arrivals } from "./arrivals.ts";
import { Attachment, type Composer, type Down, type RelayList } from "./attachment.ts";
import type { Members } from "./members.ts";
import { Pulses } from "./pulses.ts";
import { changedRecord, type RecordChange } from "./record-changes.ts";
import { checkRoutes } from "./registration.ts";
import { Restraint } from "./restraint.ts";
import { Silence } from "./silence.ts";
import type { Recorded, Standing, StandingEffect, StandingEvent } from "./standing.ts";
import { step } from "./standing-step.ts";

export interface RegistryHooks {
  /** A PNode's loss, leave or arrival may call for placement of these sessions, now. */
  onFleetChange(pnode: PNodeId, urgent: boolean): void;
  /** It may be lost soon. */
  onDoubt(pnode: PNodeId): void;
  /** Whether it answers when it is called back before it is registered. */
  callBack(pnode: PNodeId, routes: readonly string[]): Promise<boolean>;
  /** Whether it hosts what no record says. */
  hasTakenOver(pnode: PNodeId, register: Register): boolean;
  /** Claims room for that: nothing else comes there before. */
  count(pnode: PNodeId, register: Register): Promise<void>;
  /** Whether its machine says that nobody listens where it was reached. */
  isGone(pnode: PNodeId): Promise<boolean>;
  /** It has registered, or is somewhere else than before: its record says where. */
  onMoved(pnode: PNodeId, isFirst: boolean): void;
  onHeartbeat(attachment: Attachment, heartbeat: Heartbeat): void;
  onEvidence(attachment: Attachment, evidence: Evidence): void;
  /** Moves everything away from a PNode that wants to leave; resolves when nothing is assigned to it. */
  handOver(pnode: PNodeId): Promise<void>;
}

export interface RegistryNeeds {
  readonly context: Context;
  readonly presence: Presence;
  readonly composer: Composer;
  /** Who is attached here; the registry alone adds and removes. */
  readonly attachments: Map<PNodeId, Attachment>;
  readonly flapping: Flapping;
  readonly members: Members;
  /** Who relays now. */
  readonly relays: () => RelayList;
}

/** More crews than any machine is of. */
const charteredMax = 10_000;

export class Registry {
  readonly attachments: Map<PNodeId, Attachment>;
  readonly flapping: Flapping;
  readonly #context: Context;
  readonly #presence: Presence;
  readonly #composer: Composer;
  readonly #hooks: RegistryHooks;
  readonly #relays: () => RelayList;
  readonly #silence: Silence;
  readonly #arrivals: Arrivals;
  readonly #members: Members;
  readonly pulses: Pulses;
  /** Attachments whose streams are not closed yet, by nonce. */
  readonly #open = new Map<string, Attachment>();

  /** What lets a registered PNode take part in gossip; nothing, where the orchestrator does not. */
  admission: ((pnode: PNodeId) => Admission) | undefined;

  constructor(needs: RegistryNeeds, hooks: RegistryHooks) {
    const { context, presence, composer, attachments, flapping, members } = needs;
    this.#relays = needs.relays;
    this.attachments = attachments;
    this.flapping = flapping;
    this.#context = context;
    this.#presence = presence;
    this.#composer = composer;
    this.#hooks = hooks;
    this.#members = members;
    this.#arrivals = new Arrivals({
      ...{ context, flapping, members, attachments },
      callBack: (pnode, routes) => hooks.callBack(pnode, routes),
      hasTakenOver: (pnode, register) => hooks.hasTakenOver(pnode, register),
    });
    this.#silence = new Silence(context, (pnode, stoodStillMs) => this.#step(pnode, { kind: "looked", stoodStillMs }));
    this.pulses = new Pulses((kind, { pnode, nonce }) => this.#step(pnode, { kind, nonce }));
  }

  start(): void {
    const { tasks, timings, mirror, world } = this.#context;
    this.#silence.start();
    tasks.every("saving uptimes", Math.min(timings.uptimeSaveMs, 10_000), () => {
      // Jitter keeps the writes of PNodes that came together apart.
      for (const pnode of this.attachments.keys())
        this.#step(pnode, { kind: "uptime", leastMs: timings.uptimeSaveMs * (1 + world.chance.uniform()) });
    });
    mirror.on("pnode", (now) => {
      if (now) this.#step(now.id, { kind: "recorded", recorded: this.#recorded(now) });
    });
    mirror.on("member", (now) => {
      if (now?.standing === "revoked") this.#step(now.pnode, { kind: "revoked" });
    });
  }

  /** Closes every stream; PNodes attach elsewhere. */
  stop(): void {
    for (const attachment of this.attachments.values()) attachment.close();
    this.attachments.clear();
    this.#open.clear();
    this.#silence.clear();
  }

  /** Whether somebody here looks after the attachment that a PNode's record names. */
  looksAfter({ id, attachment }: PNodeRecord): boolean {
    return this.#arrivals.isRegistering(attachment) || this.attachments.get(id)?.nonce === attachment;
  }

  /** Serves one PNode's stream until it ends. */
  async attach(channel: Channel<Down, AttachRequest>, call: CallContext): Promise<void> {
    // Not `for await`: it would close the stream before the caller learns why it is refused.
    const messages = channel.incoming[Symbol.asyncIterator]();
    const first = await messages.next();
    if (first.done || this.#context.tasks.stopped) return;
    const attachment = await this.#arrivals.admit(first.value, call, (record, register) =>
      this.#arrived(record, register, channel, call.caller.address),
    );
    const { pnode, nonce } = attachment;
    const restraint = new Restraint(this.#context.world);
    try {
      for (;;) {
        const next = await messages.next();
        if (!next.done) await restraint.before(next.value.event.case);
        if (next.done || this.#context.tasks.stopped || attachment.status === "closed") return;
        this.#receive(attachment, next.value);
      }
    } catch (thrown) {
      this.#context.world.log("debug", `the stream of ${pnode} broke: ${messageOf(thrown)}`, { pnode });
    } finally {
      this.#step(pnode, { kind: "broken", nonce });
    }
  }

  #arrived(
    record: PNodeRecord,
    register: Register,
    channel: Channel<Down, AttachRequest>,
    address: string,
  ): Attachment {
    const attachment = this.#begin(record, register, channel);
    if (record.uncounted) this.#count(record, register);
    this.#greet(attachment, record, register, address);
    // Another orchestrator may have registered it while this one waited for the answer to its own write.
    const newest = this.#record(record.id);
    if (newest) this.#step(record.id, { kind: "recorded", recorded: this.#recorded(newest) });
    // Operators may have sent it away while it was called back or written down: there was no stream to end then.
    if (this.#members.isRevoked(record.id)) this.#step(record.id, { kind: "revoked" });
    return attachment;
  }

  #count({ id, name, attachment }: PNodeRecord, register: Register): void {
    this.#context.tasks.insist(`counting what ${name} has taken over`, async () => {
      const isThere = (record: PNodeRecord | undefined) => record?.attachment === attachment && record.uncounted;
      // One that has attached elsewhere since is counted there.
      if (!isThere(this.#record(id))) return;
      await this.#hooks.count(id, register);
      await this.#context.mirror.update(key.pnode(id), (current) => {
        if (current === undefined || !isThere(current)) return undefined;
        const { uncounted: _, ...counted } = current;
        return counted;
      });
    });
  }

  #begin(record: PNodeRecord, { incarnation }: Register, channel: Channel<Down, AttachRequest>): Attachment {
    const { id, attachment: nonce, patienceMs } = record;
    const before = this.attachments.get(id);
    const event = { kind: "registered", nonce, incarnation, patienceMs } as const;
    const { standing, effects } = step(before?.standing, event, this.#nowMs, this.#context.timings);
    const attachment = new Attachment(id, standing as Standing, channel, this.#composer);
    this.attachments.set(id, attachment);
    this.#open.set(nonce, attachment);
    this.#silence.heard(attachment);
    for (const effect of effects) this.#perform(id, effect);
    return attachment;
  }

  #greet(attachment: Attachment, record: PNodeRecord, register: Register, peer: string): void {
    const { id, timings, events, world } = this.#context;
    const { pnode, nonce } = attachment;
    const pulseToken = Buffer.from(world.chance.bytes(16)).toString("hex");
    this.pulses.expect(pulseToken, { pnode, nonce });
    attachment.tellRegistered({
      event: {
        case: "registered",
        value: {
          orchestrator: id,
          orchestrators: this.#presence.addresses(),
          heartbeatIntervalMs: timings.heartbeatIntervalMs,
          blobOrigins: [...this.#context.blobs.origins()],
          pulseToken,
          ...this.admission?.(pnode),
        },
      },
    });
    attachment.tellRelays(this.#relays());
    this.#hooks.onMoved(pnode, true);
    const about = { pnode };
    events.emit(
      "info",
      "pnode.online",
      `PNode ${record.name} is here, at ${shownRoutes(record.routes) || "no address of its own"} (called from ${peer})`,
      about,
    );
    for (const warning of record.warnings) events.emit("warn", "pnode.claim", `PNode ${record.name} ${warning}`, about);
    const concerned = [
      ...register.hosted.map((hosted) => hosted.session),
      ...register.chartered.slice(0, charteredMax),
    ];
    for (const session of new Set(concerned)) attachment.tellSession(session);
  }

  #receive(attachment: Attachment, message: AttachRequest): void {
    const { pnode, nonce } = attachment;
    switch (message.event.case) {
      case "heartbeat": {
        const { accepting, latencyMs } = message.event.value;
        const record = this.#record(pnode);
        const recorded = record && this.#recorded(record);
        this.#step(pnode, { kind: "heartbeat", nonce, accepting, latencyMs, recorded });
        if (attachment.status === "closed") return;
        attachment.heard(message.event.value);
        this.#hooks.onHeartbeat(attachment, message.event.value);
        return;
      }
      case "leave":
        this.#step(pnode, { kind: "leave", nonce, reason: text(message.event.value.reason) });
        return;
      case "measurement":
        this.#step(pnode, { kind: "measured", nonce, measured: message.event.value });
        return;
      case "moved":
        this.#moved(attachment, message.event.value.routes);
        return;
      case "evidence":
        this.#hooks.onEvidence(attachment, message.event.value);
        return;
      case "register":
        fail("failed_precondition", `PNode ${pnode} registered twice on one stream: open a new one`);
        return;
      case undefined:
        // A newer minor version may say things that this one does not know.
        return;
    }
  }

  #moved(attachment: Attachment, routes: readonly string[]): void {
    const { pnode, nonce } = attachment;
    checkRoutes(pnode, routes, this.#context.address);
    attachment.movedTo = joinRoutes(routes);
    this.#context.tasks.insist(`noting where ${pnode} is`, async () => {
      const { written } = await this.#context.mirror.update(key.pnode(pnode), (current) => {
        // What it has said since: a note that comes late must not undo a later one.
        const { movedTo } = attachment;
        if (current?.attachment !== nonce || movedTo === undefined || current.routes === movedTo) return undefined;
        return { ...current, routes: movedTo };
      });
      if (written) this.#hooks.onMoved(pnode, false);
    });
  }

  #step(pnode: PNodeId, event: StandingEvent): void {
    if (this.#context.tasks.stopped) return;
    const attachment = this.attachments.get(pnode);
    const { standing, effects } = step(attachment?.standing, event, this.#nowMs, this.#context.timings);
    if (attachment && standing && standing !== attachment.standing) {
      attachment.standing = standing;
      if (event.kind === "heartbeat" || event.kind === "pulse") this.#silence.heard(attachment);
    }
    for (const effect of effects) this.#perform(pnode, effect);
  }

  #perform(pnode: PNodeId, effect: StandingEffect): void {
    const { tasks, world } = this.#context;
    switch (effect.kind) {
      case "say":
        this.#say(pnode, effect.level, effect.event, effect.words);
        return;
      case "log":
        world.log("info", `PNode ${pnode} ${effect.words}`, { pnode });
        return;
      case "write":
        this.#write(pnode, effect.nonce, effect.change);
        return;
      case "later":
        tasks.after(effect.afterMs, () => this.#step(pnode, effect.event));
        return;
      case "dial":
        tasks.run(`a look at ${pnode}`, async () => {
          if (await this.#hooks.isGone(pnode)) this.#step(pnode, { kind: "gone", nonce: effect.nonce });
        });
        return;
      case "doubt":
        this.#hooks.onDoubt(pnode);
        return;
      case "fleetChanged":
        this.#hooks.onFleetChange(pnode, effect.urgent);
        return;
      case "handOver":
        tasks.run(`the leave of ${pnode}`, async () => {
          await this.#hooks.handOver(pnode);
          this.#step(pnode, { kind: "handedOver", nonce: effect.nonce });
        });
        return;
      case "grantLeave":
        this.#open.get(effect.nonce)?.tellLeaveGranted();
        return;
      case "close":
        this.#close(effect.nonce);
        return;
      default:
        unreachable(effect, "effect on an attachment");
    }
  }

  #write(pnode: PNodeId, nonce: string, change: RecordChange): void {
    const what = change.kind === "status" ? `that it is ${change.status}` : change.kind;
    this.#context.tasks.run(`noting ${what} of ${pnode}`, async () => {
      let changed = false;
      try {
        const { written } = await this.#context.mirror.update(key.pnode(pnode), (current) =>
          current?.attachment === nonce ? changedRecord(current, change) : undefined,
        );
        changed = written;
      } catch (thrown) {
        this.#step(pnode, { kind: "notWritten", nonce, change });
        throw thrown;
      }
      this.#step(pnode, { kind: "written", nonce, change, changed });
    });
  }

  #close(nonce: string): void {
    const attachment = this.#open.get(nonce);
    if (!attachment) return;
    attachment.close();
    this.#open.delete(nonce);
    this.pulses.forget(nonce);
    // Unless the PNode has attached anew.
    if (this.attachments.get(attachment.pnode) !== attachment) return;
    this.attachments.delete(attachment.pnode);
    this.#silence.forget(attachment.pnode);
  }

  #say(pnode: PNodeId, level: LogLevel, event: string, words: string): void {
    const { events, mirror } = this.#context;
    events.emit(level, event, `PNode ${pnodeName(mirror, pnode)} ${words}`, { pnode });
  }

  #record(pnode: PNodeId): PNodeRecord | undefined {
    return this.#context.mirror.get(key.pnode(pnode));
  }

  #recorded({ attachment, orchestrator, status, closed = false }: PNodeRecord): Recorded {
    return { attachment, isBeingMade: this.#arrivals.isRegistering(attachment), orchestrator, status, closed };
  }

  get #nowMs(): number {
    return this.#context.world.clock.monotonicMs();
  }
}
