// Audits that this PNode was asked for, one at a time and after everything else: it repeats what it is told from blobs, signs
// what it came to, and says so. What an audit should come to, nobody tells it.

import type { Aside } from "../../core/aside.ts";
import { auditBlobBytesMax } from "../../core/blobs.ts";
import { hasCode, messageOf } from "../../core/errors.ts";
import { sha256 } from "../../core/hash.ts";
import type { SessionId, Sha256, VNodeId } from "../../core/ids.ts";
import { retry } from "../../core/retry.ts";
import { untilEither } from "../../core/signals.ts";
import type { Tasks } from "../../core/tasks.ts";
import type { World } from "../../core/world.ts";
import type { Assignment as ProtoAssignment } from "../../protocol/gen/dcnr/v1/pnode_pb.ts";
import { TrustService } from "../../protocol/gen/dcnr/v1/trust_pb.ts";
import type { StateImage } from "../../states/cut.ts";
import { writeStateManifest } from "../../states/manifest.ts";
import type { Signing } from "../../trust/signing.ts";
import { signed, statementToWire, type WireStatement } from "../../trust/statement.ts";
import { inputsRead } from "../../trust/works.ts";
import type { VNodeCompute } from "../../vnode/compute.ts";
import type { OpenProcess } from "../../vnode/process.ts";
import type { Passage } from "../../vnode/transcript.ts";
import type { BlobClient } from "../blob-client.ts";
import type { Timings } from "../options.ts";
import type { Orchestrators } from "../orchestrators.ts";
import type { Room } from "../room.ts";
import type { SessionContext } from "../session-context.ts";
import type { Snapshot } from "../snapshots.ts";
import { equationOf, listsOf } from "../stating.ts";
import { distanceOf, weightsOf } from "./distance.ts";
import { type Replayed, replay, type Subject } from "./replay.ts";

export interface AuditorOptions {
  readonly world: World;
  readonly tasks: Tasks;
  /** Reads lists that strangers wrote. */
  readonly aside: Aside;
  readonly timings: Timings;
  readonly orchestrators: Orchestrators;
  readonly blobs: BlobClient;
  readonly room: Room;
  readonly openProcess: OpenProcess;
  readonly openSession: (session: SessionId) => Promise<SessionContext>;
  readonly snapshot: (image: StateImage) => Snapshot;
  readonly signing: Signing | undefined;
  readonly signal: AbortSignal;
}

export interface AuditAssignment {
  readonly session: SessionId;
  readonly vnode: VNodeId;
  readonly from: number;
  readonly to: number;
  readonly turn: number;
  readonly before: string;
  readonly inputs: Sha256;
  readonly against: string;
  readonly keep: boolean;
  /** Repeated with it. */
  readonly beside: readonly { readonly vnode: string; readonly before: string; readonly inputs: string }[];
}

/** Whoever asked for the audit asks somebody else by then. */
const tellingMs = 60_000;
/** Results that are kept for whoever asks for them too. */
const besideMax = 16;

export function auditsOf(assignments: readonly ProtoAssignment[]): AuditAssignment[] {
  return assignments.flatMap(({ session, vnode, work }): AuditAssignment[] => {
    if (work.case !== "auditing") return [];
    const { from, to, turn, before, inputs, against, keep, beside } = work.value;
    return [
      {
        ...{ session: session as SessionId, vnode: vnode as VNodeId, before, against, keep, beside },
        ...{ from: Number(from), to: Number(to), turn: Number(turn), inputs: inputs as Sha256 },
      },
    ];
  });
}

export class Auditor {
  readonly #options: AuditorOptions;
  readonly #waiting = new Map<string, AuditAssignment>();
  /** What is asked for now. */
  #wanted: ReadonlySet<string> = new Set();
  /** What of that was answered. */
  readonly #done = new Set<string>();
  #current: { readonly key: string; readonly ending: AbortController } | undefined;
  /** Of VNodes that were repeated with another. */
  readonly #foundBeside = new Map<string, Found>();
  #count = 0;

  constructor(options: AuditorOptions) {
    this.#options = options;
  }

  /** The list is whole. */
  reconcile(assignments: readonly AuditAssignment[]): void {
    const wanted = new Map(assignments.map((one) => [keyOf(one), one]));
    this.#wanted = new Set(wanted.keys());
    for (const key of this.#done) if (!wanted.has(key)) this.#done.delete(key);
    for (const key of this.#waiting.keys()) if (!wanted.has(key)) this.#waiting.delete(key);
    if (this.#current !== undefined && !wanted.has(this.#current.key)) this.#current.ending.abort();
    for (const [key, one] of wanted)
      if (!this.#done.has(key) && this.#current?.key !== key) this.#waiting.set(key, one);
    this.#start();
  }

  #start(): void {
    const [first] = this.#waiting;
    if (this.#current !== undefined || first === undefined || this.#options.signal.aborted) return;
    const [key, audit] = first;
    this.#waiting.delete(key);
    const ending = new AbortController();
    this.#current = { key, ending };
    this.#options.tasks.run(`audit of VNode ${audit.vnode}`, async () => {
      try {
        await untilEither([ending.signal, this.#options.signal], (signal) => this.#audit(audit, signal));
        // It may have been known before the reply to the answer came, or not wanted for a moment: whoever asks for it again wants another answer.
        if (!ending.signal.aborted) this.#done.add(key);
        else if (this.#wanted.has(key)) this.#waiting.set(key, audit);
      } finally {
        this.#current = undefined;
        this.#start();
      }
    });
  }

  async #audit(audit: AuditAssignment, signal: AbortSignal): Promise<void> {
    const { world, timings, orchestrators } = this.#options;
    const { session, vnode, from, to, turn } = audit;
    const about = { session, vnode, step: from };
    world.log("info", `repeating VNode ${vnode} of session ${session}, steps ${from} to ${to}`, about);
    let found: Found;
    try {
      found = await this.#repeat(audit, signal);
    } catch (error) {
      if (signal.aborted) return;
      world.log("warn", `VNode ${vnode} could not be repeated: ${messageOf(error)}`, about);
      found = { failure: messageOf(error).slice(0, 300), distance: -1, impossible: hasCode(error, "data_loss") };
    }
    const request = { session, vnode, turn: BigInt(turn), to: BigInt(to), ...found };
    const { retryMinMs: minMs, retryMaxMs: maxMs } = timings;
    // It is not wanted any more as soon as it is known: that must not break off the call that tells it.
    const { signal: ending } = this.#options;
    await retry({ world, minMs, maxMs, patienceMs: tellingMs, signal: ending }, () =>
      orchestrators.call(TrustService.method.recordAudit, request, ending),
    );
  }

  async #repeat(audit: AuditAssignment, signal: AbortSignal): Promise<Found> {
    const { aside, blobs, room, openProcess, openSession, snapshot, signing } = this.#options;
    const { session, vnode, from, to, against } = audit;
    if (signing === undefined) return { failure: "this PNode cannot sign", distance: -1 };
    const context = await openSession(session);
    const found = this.#foundBeside.get(keyOf(audit));
    if (found !== undefined) return found;
    const all = [audit, ...besideOf(audit)];
    const roomKey = `audit ${keyOf(audit)}`;
    room.takeAhead(
      roomKey,
      all.reduce((sum, one) => sum + context.memoryBytesOf(one.vnode), 0),
    );
    try {
      const lists = await Promise.all(
        all.map((one) => blobs.fetchList(session, one.inputs, auditBlobBytesMax, signal)),
      );
      const open = (state: string, what: string) => blobs.openState(session, state as Sha256, what, signal);
      const subjectOf = async ({ vnode: id, before }: AuditAssignment, list: Uint8Array): Promise<Subject> => ({
        vnode: id,
        before: before === "" ? undefined : await open(before, `the state of ${id} at ${from}`),
        inputs: await inputsRead(aside, list, { session, vnode: id, from, to }),
      });
      let start: ReadonlyMap<string, Float32Array> = new Map();
      const [own, ...beside] = await Promise.all(all.map((one, at) => subjectOf(one, lists[at] as Uint8Array)));
      const replayed = await replay({
        ...{ context, from, to, openProcess, signal, ...(own as Subject), beside },
        openMessages: (hashes) => blobs.openLists(session, hashes, auditBlobBytesMax, signal),
        name: `audit/${session}/${vnode}/${++this.#count}`,
        onBegin: (state) => {
          if (against !== "") start = weightsOf(state);
        },
      });
      try {
        // Whoever repeats one of them has repeated all: usually it is asked for the others too.
        const isPlain = against === "" && !audit.keep;
        for (const [at, one] of isPlain ? all.entries().drop(1) : []) {
          const { passage, compute } = replayed[at] as Replayed;
          const ended = await this.#ended(one, compute, snapshot);
          this.#remember(one, {
            statement: await this.#stated(one, lists[at] as Uint8Array, passage, ended),
            distance: -1,
            failure: "",
          });
        }
        const [{ passage, compute }] = replayed;
        const ended = await this.#ended(audit, compute, snapshot, signal);
        const distance =
          against === ""
            ? -1
            : await distanceOf(ended.image, start, await open(against, `the state that ${vnode} is compared with`));
        return { statement: await this.#stated(audit, lists[0] as Uint8Array, passage, ended), distance, failure: "" };
      } finally {
        for (const { compute } of replayed) await compute.close();
      }
    } finally {
      room.giveBackAhead(roomKey);
    }
  }

  /** The state that it came to; stored where somebody will compare it. */
  async #ended(
    { session, to, keep }: AuditAssignment,
    { state }: VNodeCompute,
    snapshot: AuditorOptions["snapshot"],
    signal?: AbortSignal,
  ): Promise<Ended> {
    await state.download();
    const image = state.snapshot(to);
    const taken = snapshot(image);
    const after = sha256(writeStateManifest(await taken.manifest()));
    if (keep && signal !== undefined) await this.#options.blobs.storeState(session, taken, signal);
    await taken.release();
    return { image, after, afterBytes: taken.bytes };
  }

  async #stated(audit: AuditAssignment, list: Uint8Array, passage: Passage, { after, afterBytes }: Ended) {
    const { session, vnode, to, before } = audit;
    const { outputs } = listsOf({ session, vnode }, passage);
    const inputs = { hash: audit.inputs, content: list };
    const ends = { inputs, outputs, after, afterBytes, life: { name: `audit-${to}`, before } };
    return statementToWire(
      await signed(equationOf({ session, vnode }, passage, ends), this.#options.signing as Signing),
    );
  }

  #remember(audit: AuditAssignment, found: Found): void {
    this.#foundBeside.set(keyOf(audit), found);
    for (const key of this.#foundBeside.keys()) if (this.#foundBeside.size > besideMax) this.#foundBeside.delete(key);
  }
}

interface Ended {
  readonly image: StateImage;
  readonly after: Sha256;
  readonly afterBytes: number;
}

interface Found {
  readonly statement?: WireStatement;
  readonly distance: number;
  readonly failure: string;
  /** The blobs are whole, and what is listed is not. */
  readonly impossible?: boolean;
}

function keyOf(audit: AuditAssignment): string {
  const { session, vnode, to, turn, against, keep, beside } = audit;
  const premises = [audit, ...beside].map((one) => `${one.vnode} ${one.before} ${one.inputs}`).sort();
  return `${session}/${vnode}/${to}/${turn}/${against}/${keep}/${premises.join()}`;
}

/** The same audit as each of those that are repeated with it sees it. */
function besideOf({ vnode, before, inputs, beside, ...audit }: AuditAssignment): AuditAssignment[] {
  return beside.map((one) => ({
    ...audit,
    ...{ vnode: one.vnode as VNodeId, before: one.before, inputs: one.inputs as Sha256 },
    beside: [{ vnode, before, inputs }, ...beside.filter((other) => other !== one)],
  }));
}
