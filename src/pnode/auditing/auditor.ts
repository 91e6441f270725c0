// Audits that this PNode was asked for, one at a time and after everything else: it repeats what it is told from blobs, signs
// what it came to, and says so. What an audit should come to, nobody tells it.

import { hasCode, messageOf } from "../../core/errors.ts";
import { sha256 } from "../../core/hash.ts";
import type { SessionId, Sha256, VNodeId } from "../../core/ids.ts";
import { retry } from "../../core/retry.ts";
import type { Tasks } from "../../core/tasks.ts";
import type { World } from "../../core/world.ts";
import type { Assignment as ProtoAssignment } from "../../protocol/gen/dcnr/v1/pnode_pb.ts";
import { TrustService } from "../../protocol/gen/dcnr/v1/trust_pb.ts";
import type { StateImage } from "../../states/cut.ts";
import { writeStateManifest } from "../../states/manifest.ts";
import { listBytesMax, readInputs } from "../../trust/lists.ts";
import type { Signing } from "../../trust/signing.ts";
import { signed, statementToWire, type WireStatement } from "../../trust/statement.ts";
import type { OpenProcess } from "../../vnode/process.ts";
import type { BlobClient } from "../blob-client.ts";
import type { Timings } from "../options.ts";
import type { Orchestrators } from "../orchestrators.ts";
import type { Room } from "../room.ts";
import type { SessionContext } from "../session-context.ts";
import type { Snapshot } from "../snapshots.ts";
import { equationOf, listsOf } from "../stating.ts";
import { distanceOf, weightsOf } from "./distance.ts";
import { replay } from "./replay.ts";

export interface AuditorOptions {
  readonly world: World;
  readonly tasks: Tasks;
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
}

const messageBytesMax = 64 << 20;
/** Whoever asked for the audit asks somebody else by then. */
const tellingMs = 60_000;

export function auditsOf(assignments: readonly ProtoAssignment[]): AuditAssignment[] {
  return assignments.flatMap(({ session, vnode, work }): AuditAssignment[] => {
    if (work.case !== "auditing") return [];
    const { from, to, turn, before, inputs, against, keep } = work.value;
    return [
      {
        ...{ session: session as SessionId, vnode: vnode as VNodeId, before, against, keep },
        ...{ from: Number(from), to: Number(to), turn: Number(turn), inputs: inputs as Sha256 },
      },
    ];
  });
}

export class Auditor {
  readonly #options: AuditorOptions;
  readonly #waiting = new Map<string, AuditAssignment>();
  /** What was answered, until it is not asked for any more. */
  readonly #done = new Set<string>();
  #current: { readonly key: string; readonly ending: AbortController } | undefined;
  #count = 0;

  constructor(options: AuditorOptions) {
    this.#options = options;
  }

  /** The list is whole. */
  reconcile(assignments: readonly AuditAssignment[]): void {
    const wanted = new Map(assignments.map((one) => [keyOf(one), one]));
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
    const signal = AbortSignal.any([ending.signal, this.#options.signal]);
    this.#options.tasks.run(`audit of VNode ${audit.vnode}`, async () => {
      try {
        await this.#audit(audit, signal);
        this.#done.add(key);
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
    const { blobs, room, openProcess, openSession, snapshot, signing } = this.#options;
    const { session, vnode, from, to, against } = audit;
    if (signing === undefined) return { failure: "this PNode cannot sign", distance: -1 };
    const context = await openSession(session);
    const roomKey = `audit ${keyOf(audit)}`;
    room.takeAhead(roomKey, context.memoryBytesOf(vnode));
    try {
      const list = await blobs.fetchList(session, audit.inputs, listBytesMax, signal);
      const open = (state: string, what: string) => blobs.openState(session, state as Sha256, what, signal);
      const before = audit.before === "" ? undefined : await open(audit.before, `the state of ${vnode} at ${from}`);
      let start: ReadonlyMap<string, Float32Array> = new Map();
      const { passage, compute } = await replay({
        ...{ context, vnode, from, to, before, openProcess, signal },
        inputs: readInputs(list, { session, vnode, from, to }),
        fetchMessage: (hash) => blobs.fetchList(session, hash, messageBytesMax, signal),
        name: `audit/${session}/${vnode}/${++this.#count}`,
        onBegin: (state) => {
          if (against !== "") start = weightsOf(state);
        },
      });
      try {
        await compute.state.download();
        const image = compute.state.snapshot(to);
        const taken = snapshot(image);
        const manifest = await taken.manifest();
        const after = sha256(writeStateManifest(manifest));
        if (audit.keep) await blobs.storeState(session, taken, signal);
        const distance =
          against === ""
            ? -1
            : await distanceOf(image, start, await open(against, `the state that ${vnode} is compared with`));
        await taken.release();
        const { outputs } = listsOf({ session, vnode }, passage);
        const life = { name: `audit-${to}`, before: audit.before };
        const inputs = { hash: audit.inputs, content: list };
        const ends = { inputs, outputs, after, afterBytes: taken.bytes, life };
        const statement = statementToWire(await signed(equationOf({ session, vnode }, passage, ends), signing));
        return { statement, distance, failure: "" };
      } finally {
        await compute.close();
      }
    } finally {
      room.giveBackAhead(roomKey);
    }
  }
}

interface Found {
  readonly statement?: WireStatement;
  readonly distance: number;
  readonly failure: string;
  /** The blobs are whole, and what is listed is not. */
  readonly impossible?: boolean;
}

function keyOf({ session, vnode, to, turn, against, keep }: AuditAssignment): string {
  return `${session}/${vnode}/${to}/${turn}/${against}/${keep}`;
}
