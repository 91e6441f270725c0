// PNodes that attach here: registration, heartbeats, suspicion, loss, leave. Heartbeats stay in memory; the
// store hears of a PNode only when something about it changes.

import { fail, messageOf } from "../../core/errors.ts";
import type { PNodeId } from "../../core/ids.ts";
import { Patience, patienceMsMax } from "../../core/patience.ts";
import type { AttachRequest, Evidence, Heartbeat, Register } from "../../protocol/gen/dcnr/v1/pnode_pb.ts";
import type { CallContext, Channel } from "../../protocol/network.ts";
import type { Context } from "../context.ts";
import { key, type PNodeRecord } from "../records/records.ts";
import { AttachedRecords, type Measured } from "./attached-records.ts";
import { Attachment, type Composer, type Down } from "./attachment.ts";
import { text } from "./claims.ts";
import type { Flapping } from "./flapping.ts";
import type { Presence } from "./presence.ts";
import { Pulses } from "./pulses.ts";
import { checkRegister, pnodeOf, registered } from "./registration.ts";
import { Silence } from "./silence.ts";

export interface RegistryHooks {
  /** A PNode's loss, leave or arrival may call for placement of these sessions, now. */
  onFleetChange(pnode: PNodeId, urgent: boolean): void;
  /** It may be lost soon. */
  onDoubt(pnode: PNodeId): void;
  onHeartbeat(attachment: Attachment, heartbeat: Heartbeat): void;
  onEvidence(attachment: Attachment, evidence: Evidence): void;
  /** Moves everything away from a PNode that wants to leave; resolves when nothing is assigned to it. */
  handOver(pnode: PNodeId): Promise<void>;
}

/** A new connection, a new stream, a registration and its answer, with some room. */
const returnRoundTrips = 5;
/** Of its patience, for a PNode that lives and has lost its stream: to attach again takes several turns of a busy thread. */
const busyFactor = 5;
/** PNodes measure their latency themselves; nobody is waited for longer than half around the world. */
const latencyMsMax = 300;

export interface RegistryNeeds {
  readonly context: Context;
  readonly presence: Presence;
  readonly composer: Composer;
  /** Who is attached here; the registry alone adds and removes. */
  readonly attachments: Map<PNodeId, Attachment>;
  readonly flapping: Flapping;
}

export class Registry {
  readonly attachments: Map<PNodeId, Attachment>;
  readonly flapping: Flapping;
  readonly #context: Context;
  readonly #presence: Presence;
  readonly #composer: Composer;
  readonly #hooks: RegistryHooks;
  readonly #records: AttachedRecords;
  readonly #silence: Silence;
  readonly pulses: Pulses;
  #count = 0;

  constructor({ context, presence, composer, attachments, flapping }: RegistryNeeds, hooks: RegistryHooks) {
    this.attachments = attachments;
    this.flapping = flapping;
    this.#context = context;
    this.#presence = presence;
    this.#composer = composer;
    this.#hooks = hooks;
    this.#records = new AttachedRecords(context);
    this.#silence = new Silence(context, {
      onDoubt: (pnode) => hooks.onDoubt(pnode),
      onSilent: (attachment, reason) => this.#declareLost(attachment, reason),
    });
    this.pulses = new Pulses({
      onPulse: (attachment) => this.#seen(attachment),
      onEnd: (attachment) => {
        // It was waited for because it pulsed.
        if (attachment.status === "suspect") this.#loseLater(attachment);
      },
    });
  }

  start(): void {
    const { tasks, timings, mirror } = this.#context;
    this.#silence.start();
    tasks.every("saving uptimes", Math.min(timings.uptimeSaveMs, 10_000), () =>
      this.#records.saveUptimes(this.attachments.values()),
    );
    mirror.on("pnode", (now) => this.#onRecord(now));
  }

  /** Closes every stream; PNodes attach elsewhere. */
  stop(): void {
    for (const attachment of this.attachments.values()) attachment.close();
    this.attachments.clear();
    this.#silence.clear();
  }

  /** Serves one PNode's stream until it ends. */
  async attach(channel: Channel<Down, AttachRequest>, call: CallContext): Promise<void> {
    // Not `for await`: it would close the stream before the caller learns why it is refused.
    const messages = channel.incoming[Symbol.asyncIterator]();
    const first = await messages.next();
    if (first.done || this.#context.tasks.stopped) return;
    const attachment = await this.#register(first.value, channel, call);
    try {
      for (;;) {
        const next = await messages.next();
        if (next.done || this.#context.tasks.stopped || attachment.status === "closed") return;
        this.#receive(attachment, next.value);
      }
    } catch (thrown) {
      this.#context.world.log("debug", `the stream of ${attachment.pnode} broke: ${messageOf(thrown)}`, {
        pnode: attachment.pnode,
      });
    } finally {
      this.#broken(attachment);
    }
  }

  async #register(
    message: AttachRequest,
    channel: Channel<Down, AttachRequest>,
    call: CallContext,
  ): Promise<Attachment> {
    if (message.event.case !== "register")
      fail("failed_precondition", "the first message on the stream must be `register`");
    const register = message.event.value;
    const id = pnodeOf(call.caller);
    checkRegister(id, register, this.#context.address);
    this.#throttle(id);
    this.#refuseDuplicate(id, register);
    const record = await this.#writeRegistration(id, register, call.caller.address);
    const { clock, chance } = this.#context.world;
    const attachment = new Attachment(
      {
        pnode: id,
        incarnation: register.incarnation,
        nonce: record.attachment,
        nowMs: clock.monotonicMs(),
        patience: new Patience(this.#context.timings.silentMs, record.patienceMs),
      },
      channel,
      this.#composer,
    );
    const replaced = this.attachments.get(id);
    this.attachments.set(id, attachment);
    if (replaced) this.pulses.forget(replaced);
    replaced?.close();
    this.#silence.heard(attachment);
    const pulseToken = Buffer.from(chance.bytes(16)).toString("hex");
    this.pulses.expect(pulseToken, attachment);
    this.#greet(attachment, record, register, call.caller.address, pulseToken);
    return attachment;
  }

  #greet(attachment: Attachment, record: PNodeRecord, register: Register, peer: string, pulseToken: string): void {
    const { id, timings, events } = this.#context;
    attachment.tellRegistered({
      event: {
        case: "registered",
        value: {
          orchestrator: id,
          orchestrators: this.#presence.addresses(),
          heartbeatIntervalMs: timings.heartbeatIntervalMs,
          blobOrigins: [...this.#context.blobs.origins()],
          pulseToken,
        },
      },
    });
    const about = { pnode: record.id };
    events.emit(
      "info",
      "pnode.online",
      `PNode ${record.name} is here, at ${record.address} (called from ${peer})`,
      about,
    );
    for (const warning of record.warnings) events.emit("warn", "pnode.claim", `PNode ${record.name} ${warning}`, about);
    for (const session of new Set(register.hosted.map((hosted) => hosted.session))) attachment.tellSession(session);
    this.#hooks.onFleetChange(record.id, false);
  }

  #throttle(id: PNodeId): void {
    const waitMs = this.flapping.attempt(id);
    if (waitMs === 0) return;
    const count = this.flapping.count(id);
    if (count % 10 === 3)
      this.#context.events.emit(
        "warn",
        "pnode.flapping",
        `PNode ${this.#name(id)} registered ${count} times within a minute: refused for now`,
        { pnode: id },
      );
    fail("resource_exhausted", `PNode ${id} registers too often: try again in ${Math.ceil(waitMs / 1000)} s`);
  }

  /** A copy of a PNode's directory would otherwise fight with the original for its VNodes. */
  #refuseDuplicate(id: PNodeId, register: Register): void {
    const known = this.attachments.get(id);
    if (!known || known.incarnation === register.incarnation || known.status === "suspect") return;
    const quietMs = this.#context.world.clock.monotonicMs() - known.lastSeenMs;
    if (quietMs > 2 * this.#context.timings.heartbeatIntervalMs) return;
    const message = `another PNode with the id ${id} is attached and alive: give this one a directory of its own`;
    this.#context.events.emit("warn", "pnode.duplicate", `${register.address}: ${message}`, { pnode: id });
    fail("already_exists", message);
  }

  async #writeRegistration(id: PNodeId, register: Register, peer: string): Promise<PNodeRecord> {
    const whereabouts = {
      orchestrator: this.#context.id,
      orchestratorIncarnation: this.#context.incarnation,
      attachment: `${this.#context.incarnation}.${++this.#count}`,
    };
    const { record } = await this.#context.mirror.update(key.pnode(id), (current) =>
      registered(current, id, register, whereabouts, peer),
    );
    return record as PNodeRecord;
  }

  #receive(attachment: Attachment, message: AttachRequest): void {
    switch (message.event.case) {
      case "heartbeat":
        this.#seen(attachment);
        attachment.heard(message.event.value);
        this.#noteClosed(attachment, !message.event.value.accepting);
        this.#noteReturn(attachment);
        this.#hooks.onHeartbeat(attachment, message.event.value);
        return;
      case "leave":
        this.#leave(attachment, message.event.value.reason);
        return;
      case "measurement":
        this.#noteMeasurement(attachment, message.event.value);
        return;
      case "evidence":
        this.#hooks.onEvidence(attachment, message.event.value);
        return;
      case "register":
        fail("failed_precondition", `PNode ${attachment.pnode} registered twice on one stream: open a new one`);
        return;
      case undefined:
        // A newer minor version may say things that this one does not know.
        return;
    }
  }

  #seen(attachment: Attachment): void {
    const { world, timings } = this.#context;
    if (this.attachments.get(attachment.pnode) !== attachment) return;
    attachment.seen(world.clock.monotonicMs(), timings.heartbeatIntervalMs);
    this.#silence.heard(attachment);
  }

  #noteMeasurement(attachment: Attachment, measured: Measured): void {
    this.#context.tasks.run(`noting a measurement of ${attachment.pnode}`, async () => {
      // What it rounds like decides what it may host.
      if (await this.#records.noteMeasurement(attachment, measured))
        this.#hooks.onFleetChange(attachment.pnode, measured.numerics.length > 0);
    });
  }

  #noteClosed(attachment: Attachment, closed: boolean): void {
    const { pnode } = attachment;
    const { tasks, events } = this.#context;
    // Most heartbeats say what the one before them said.
    if (attachment.closed === closed) return;
    tasks.run(`noting the hours of ${pnode}`, async () => {
      if (!(await this.#records.noteClosed(attachment, closed))) return;
      const says = closed ? "takes no work for now: its owner's hours or limits say so" : "takes work again";
      events.emit("info", closed ? "pnode.closed" : "pnode.open", `PNode ${this.#name(pnode)} ${says}`, { pnode });
      this.#hooks.onFleetChange(pnode, true);
    });
  }

  #leave(attachment: Attachment, reason: string): void {
    if (attachment.status !== "online") return;
    attachment.status = "leaving";
    const { tasks, events } = this.#context;
    const { pnode } = attachment;
    events.emit("info", "pnode.leaving", `PNode ${this.#name(pnode)} leaves${reason ? `: ${text(reason)}` : ""}`, {
      pnode,
    });
    tasks.run(`the leave of ${pnode}`, async () => {
      await this.#records.setStatus(attachment, "leaving");
      await this.#hooks.handOver(pnode);
      await this.#records.setStatus(attachment, "left");
      events.emit("info", "pnode.left", `PNode ${this.#name(pnode)} has left, all its VNodes were handed over`, {
        pnode,
      });
      attachment.tellLeaveGranted();
    });
  }

  #broken(attachment: Attachment): void {
    const { tasks, events, world } = this.#context;
    if (tasks.stopped || this.attachments.get(attachment.pnode) !== attachment) return;
    const left = attachment.status === "leaving" && this.#records.get(attachment.pnode)?.status === "left";
    if (attachment.status === "closed" || left) {
      this.#forget(attachment);
      return;
    }
    attachment.status = "suspect";
    attachment.suspectSinceMs = world.clock.monotonicMs();
    this.#loseLater(attachment);
    const waitedMs = attachment.lostAtMs - attachment.suspectSinceMs;
    events.emit(
      "warn",
      "pnode.suspect",
      `PNode ${this.#name(attachment.pnode)}: its stream broke, lost in ${waitedMs.toFixed(0)} ms unless it is back`,
      { pnode: attachment.pnode },
    );
    this.#hooks.onDoubt(attachment.pnode);
  }

  /** A process that pulses lives and will attach again when it comes to it; one that does not is soon taken for dead. */
  #loseLater(attachment: Attachment): void {
    const { tasks, timings, world } = this.#context;
    const graceMs =
      attachment.pulses > 0
        ? Math.min(patienceMsMax, busyFactor * attachment.patience.limitMs)
        : timings.graceMs + returnRoundTrips * Math.min(attachment.latencyMs, latencyMsMax);
    const lostAtMs = world.clock.monotonicMs() + graceMs;
    attachment.lostAtMs = lostAtMs;
    tasks.after(graceMs, () => {
      // Unless it was granted another time meanwhile.
      if (attachment.lostAtMs === lostAtMs) this.#declareLost(attachment, "its stream broke");
    });
  }

  #declareLost(attachment: Attachment, reason: string): void {
    if (this.attachments.get(attachment.pnode) !== attachment) return;
    // Else the record that says so would be taken for another orchestrator's mistake, and corrected.
    attachment.status = "suspect";
    this.#context.tasks.run(`the loss of ${attachment.pnode}`, async () => {
      const { events, tasks } = this.#context;
      const { pnode } = attachment;
      try {
        const lost = await this.#records.setStatus(attachment, "lost", reason);
        if (lost) events.emit("warn", "pnode.lost", `PNode ${this.#name(pnode)} is lost: ${reason}`, { pnode });
      } catch (thrown) {
        // Without the store nothing can be re-placed either; try again until it is back.
        tasks.after(1_000, () => this.#declareLost(attachment, reason));
        throw thrown;
      }
      if (this.attachments.get(pnode) === attachment) {
        attachment.close();
        this.#forget(attachment);
      }
      this.#hooks.onFleetChange(pnode, true);
    });
  }

  #forget(attachment: Attachment): void {
    if (this.attachments.get(attachment.pnode) !== attachment) return;
    this.attachments.delete(attachment.pnode);
    this.#silence.forget(attachment.pnode);
    this.pulses.forget(attachment);
  }

  #name(pnode: PNodeId): string {
    return this.#records.nameOf(pnode);
  }

  /** The record of an attached PNode changed: here, or because it attached to another orchestrator. */
  #onRecord(record: PNodeRecord | undefined): void {
    const attachment = record && this.attachments.get(record.id);
    if (!attachment || attachment.status === "suspect") return;
    if (record.attachment !== attachment.nonce) {
      if (record.orchestrator === this.#context.id && record.orchestratorIncarnation === this.#context.incarnation)
        return;
      this.#context.world.log("info", `PNode ${attachment.pnode} attached to ${record.orchestrator}`, {
        pnode: attachment.pnode,
      });
      attachment.close();
      this.#forget(attachment);
      return;
    }
    this.#noteReturn(attachment);
  }

  /** Others took this orchestrator for dead; the PNode is well. Looked at again with every heartbeat: a write may fail. */
  #noteReturn(attachment: Attachment): void {
    const record = this.#records.get(attachment.pnode);
    // Another orchestrator may have registered it while this one waited for the answer to its own write.
    if (record && record.attachment !== attachment.nonce) this.#onRecord(record);
    if (record?.status !== "lost" || record.attachment !== attachment.nonce) return;
    if (attachment.status !== "online" || attachment.returning) return;
    attachment.returning = true;
    this.#context.tasks.run(`the return of ${attachment.pnode}`, async () => {
      try {
        await this.#records.setStatus(attachment, "online");
      } finally {
        attachment.returning = false;
      }
    });
  }
}
