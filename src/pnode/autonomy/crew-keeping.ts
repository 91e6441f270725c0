// States that a crew keeps for each other: this PNode's own checkpoints on other disks, those of others on its own, and from whom they are
// fetched when they are needed.

import { stateManifestBytesMax } from "../../core/blobs.ts";
import { DcnrError, fail, hasCode, messageOf } from "../../core/errors.ts";
import { sha256 } from "../../core/hash.ts";
import { parseSha256, type Sha256, type VNodeId } from "../../core/ids.ts";
import { sleep } from "../../core/world.ts";
import { holdersNeeded, isAlive, stateAtLine } from "../../crew/crew.ts";
import { type HeldState, type HolderList, heldState, toldSequenceMax, withHolder } from "../../crew/holdings.ts";
import { successorsOf } from "../../crew/successors.ts";
import { readStateManifest, type StateManifest } from "../../states/manifest.ts";
import type { Assignment } from "../assignment.ts";
import type { StepHash } from "../checkpoints.ts";
import { NoRoom } from "../room.ts";
import type { CrewCell } from "./crew-cell.ts";
import { holderFromWire } from "./crew-wire.ts";
import type { KeptState } from "./kept-states.ts";
import type { Peer } from "./peers.ts";
import { Stumbles } from "./stumbles.ts";
import { readTrail, trailBytesMax, trailOf } from "./trail.ts";

const atMost = (bytesMax: number) => (bytes: number) =>
  bytes <= bytesMax ? new Uint8Array(bytes) : fail("resource_exhausted", `${bytes} bytes are more than ${bytesMax}`);
const exactly = (expected: number) => (bytes: number) =>
  bytes === expected ? new Uint8Array(bytes) : fail("data_loss", `${bytes} bytes came, not ${expected}`);
const trailRoom = atMost(trailBytesMax);

/** What could not be written on this PNode's disk is tried again after so long; the line moves on meanwhile and makes room, or it does not. */
const diskPauseMs = 2_000;
const diskPatienceMs = 60_000;

export class CrewKeeping {
  readonly #cell: CrewCell;
  readonly #keeping = new Set<string>();
  readonly #stumbles: Stumbles;
  /** Why this PNode's own disk does not take a VNode's states. */
  readonly #diskTroubles = new Map<VNodeId, string>();
  #sequence: number;
  /** Bytes that keepers fetched here, and the checkpoints that were made here. */
  keptBytes = 0;
  keptStates = 0;

  constructor(cell: CrewCell) {
    this.#cell = cell;
    this.#stumbles = new Stumbles(cell.options.world);
    // Higher than that of any earlier process of this PNode, unless its clock went back: peers will tell then.
    this.#sequence = Math.max(1, Math.round(cell.options.world.clock.wallMs()));
  }

  /** A list of an earlier process of this PNode is still believed: the next one must be newer. */
  outrun(sequence: number): void {
    if (sequence <= this.#sequence || sequence > toldSequenceMax) return;
    this.#sequence = sequence;
    this.listOwn();
  }

  /** Why a VNode's checkpoints are not held, for people; empty if nothing is wrong. */
  troubleOf(vnode: VNodeId): string {
    const own = this.#diskTroubles.get(vnode);
    return [...(own ? [own] : []), ...this.#stumbles.refusals(vnode)].join("; ");
  }

  /**
   * A checkpoint of this PNode's own; resolves when it is held often enough to be counted on, or nobody waits. Fails with `NoRoom`
   * if this PNode's disk does not take it for a while, and an orchestrator is there who may place the VNode elsewhere.
   */
  async keepOwn(
    vnode: VNodeId,
    step: number,
    snapshot: {
      manifest(): Promise<StateManifest>;
      part(index: number, room: (bytes: number) => Uint8Array): Promise<Uint8Array>;
    },
    hashes: readonly StepHash[],
    signal: AbortSignal,
  ): Promise<void> {
    const { kept, world } = this.#cell.options;
    const { session } = this.#cell.state.charter;
    const trail = trailOf(hashes);
    const trailHash = trail.byteLength === 0 ? "" : sha256(trail);
    for (const startedMs = this.#cell.nowMs; ; ) {
      if (signal.aborted || this.#cell.isStopped) return;
      try {
        const manifest = await snapshot.manifest();
        const bring = async (hash: Sha256) =>
          hash === trailHash ? trail : snapshot.part(manifest.parts.indexOf(hash), (bytes) => new Uint8Array(bytes));
        await kept.keep({
          ...{ session, vnode, step, manifest, bring },
          trail: trailHash,
          trailBytes: trail.byteLength,
        });
        break;
      } catch (error) {
        const trouble = `the state of VNode ${vnode} at step ${step} is not kept: ${messageOf(error)}`;
        if (this.#cell.nowMs - startedMs >= diskPatienceMs && !this.#cell.isAlone) {
          this.#diskTroubles.delete(vnode);
          throw new NoRoom(`${trouble}; more of this machine's disk has to be lent`);
        }
        this.#diskTroubles.set(vnode, trouble);
        this.#cell.log("warn", `${trouble}; trying again`);
        await sleep(world.timers, diskPauseMs, signal);
      }
    }
    this.#diskTroubles.delete(vnode);
    this.keptStates += 1;
    this.listOwn();
    this.replicate();
    await this.#cell.until(() => step < this.#cell.state.line || this.#isHeld(vnode, step), signal);
  }

  /** The state that a life is about to start from, onto this PNode's own disk; one attempt. */
  async holdStart({ vnode, line, state }: Assignment, signal: AbortSignal): Promise<void> {
    if (state === "") return;
    const hash = parseSha256(state, `the state of VNode ${vnode}`);
    if (this.#holds(vnode, line, hash)) return;
    const held = { vnode, step: line, state: hash, trail: this.#trailOf(vnode, line, hash) };
    await this.fetchAndKeep(held, this.#cell.sources(hash), signal);
    this.replicate();
  }

  /** What this PNode hosts and does not hold at the line: it was stored before there was a charter, or by another owner. */
  holdLine(): void {
    const { hooks, tasks, signal } = this.#cell.options;
    const { line } = this.#cell.state;
    for (const assignment of hooks.hosted()) {
      const { vnode } = assignment;
      const state = stateAtLine(this.#cell.state, vnode);
      const name = `hold ${vnode} ${line}`;
      if (!state || this.#keeping.has(name) || this.#holds(vnode, line, state)) continue;
      this.#keeping.add(name);
      tasks.run(`the state of VNode ${vnode} at step ${line}`, async () => {
        try {
          await this.holdStart({ ...assignment, line, state }, signal);
        } catch (error) {
          this.#cell.log("debug", `VNode ${vnode} at step ${line} is not held here: ${messageOf(error)}`);
        } finally {
          this.#keeping.delete(name);
        }
      });
    }
  }

  #holds(vnode: VNodeId, step: number, state: Sha256): boolean {
    return this.#cell.options.kept.find(this.#cell.state.charter.session, vnode, step)?.state === state;
  }

  #trailOf(vnode: VNodeId, step: number, state: Sha256): Sha256 | "" {
    for (const { states } of this.#cell.state.holdings.values())
      for (const held of states)
        if (held.vnode === vnode && held.step === step && held.state === state && held.trail !== "") return held.trail;
    return "";
  }

  /** Step hashes that no store knows, up to a state at the line; empty if nobody has them. */
  async trail(vnode: VNodeId, step: number, signal: AbortSignal): Promise<StepHash[]> {
    const { kept } = this.#cell.options;
    const state = stateAtLine(this.#cell.state, vnode);
    const hash = state && step === this.#cell.state.line ? this.#trailOf(vnode, step, state) : "";
    if (hash === "") return [];
    try {
      const content =
        (await kept.read(hash)) ?? (await this.fetchBlob(hash, this.#cell.sources(hash), trailRoom, signal));
      return sha256(content) === hash ? readTrail(content, step) : [];
    } catch (error) {
      this.#cell.log("warn", `step hashes of VNode ${vnode} up to step ${step} are lost: ${messageOf(error)}`);
      return [];
    }
  }

  /** From the first of them who is there and has it. */
  async fetchBlob(
    hash: Sha256,
    from: readonly Peer[],
    room: (bytes: number) => Uint8Array,
    signal: AbortSignal,
  ): Promise<Uint8Array> {
    const { peers, timings } = this.#cell.options;
    const { session } = this.#cell.state.charter;
    let last: unknown = new DcnrError("unavailable", `nobody of the crew who is there has blob ${hash}`);
    const isThere = ({ pnode }: Peer) => isAlive(this.#cell.state, pnode, this.#cell.nowMs, timings);
    // Whoever went away meanwhile is asked last: it would be waited for with every part.
    for (const peer of [...from.filter(isThere), ...from.filter((one) => !isThere(one))]) {
      if (signal.aborted || this.#cell.isStopped) break;
      try {
        return await peers.fetch(peer, { session, hash }, room, () => isThere(peer), signal);
      } catch (error) {
        last = error;
      }
    }
    if (this.#cell.isAlone || signal.aborted || this.#cell.isStopped) throw last;
    return this.#cell.options.fetchStored(session, hash, room, signal);
  }

  /**
   * Resolves when all of it lies on this PNode's disk. What is larger than `bytesMax` is not fetched. Parts are fetched on when nobody waits for
   * them any more: whoever asked for them asks again.
   */
  async fetchAndKeep(
    { vnode, step, state, trail }: HeldState,
    from: readonly Peer[],
    signal: AbortSignal,
    bytesMax = Number.POSITIVE_INFINITY,
  ): Promise<void> {
    const { kept, signal: ending } = this.#cell.options;
    const { session } = this.#cell.state.charter;
    const what = `the state of VNode ${vnode} at step ${step}`;
    const own = kept.isOf(session, state) ? await kept.read(state) : undefined;
    const text = own ?? (await this.fetchBlob(state, from, atMost(stateManifestBytesMax), signal));
    const manifest = readStateManifest(text, what);
    if (manifest.bytes > bytesMax) fail("resource_exhausted", `${what} has ${manifest.bytes} bytes, which none has`);
    const trailContent = trail === "" ? undefined : await this.fetchBlob(trail, from, trailRoom, signal);
    const bring = async (hash: Sha256, bytes: number) =>
      hash === trail && trailContent ? trailContent : this.fetchBlob(hash, from, exactly(bytes), ending);
    const trailBytes = trailContent?.byteLength ?? 0;
    const keeping = kept.keep({ session, vnode, step, manifest, bring, trail, trailBytes }).then(() => this.listOwn());
    await unlessAborted(keeping, signal);
  }

  /** What this PNode has told of what it holds. */
  get ownList(): HolderList {
    return this.#cell.state.holdings.get(this.#cell.options.self.pnode) as HolderList;
  }

  #isHeld(vnode: VNodeId, step: number): boolean {
    const { timings, rules } = this.#cell.options;
    const nowMs = this.#cell.nowMs;
    const held = heldState(this.#cell.state.holdings, vnode, step, (holder) =>
      rules.counts(this.#cell.state, holder, nowMs, timings),
    );
    return (held?.holders.length ?? 0) >= holdersNeeded(this.#cell.state, nowMs, timings);
  }

  /** Tells of all that this PNode holds, under the next number. */
  listOwn(): void {
    const { kept, self } = this.#cell.options;
    const states = kept
      .of(this.#cell.state.charter.session)
      .map(({ vnode, step, state, trail }) => ({ vnode, step, state, trail }));
    const list = { sequence: ++this.#sequence, states };
    this.#cell.change({ ...this.#cell.state, holdings: withHolder(this.#cell.state.holdings, self.pnode, list) });
  }

  /** Each state at the line or above has its keepers; whoever is responsible for it asks them. */
  replicate(): void {
    const { kept, rules, timings } = this.#cell.options;
    const hosted = new Set(this.#cell.options.hooks.hosted().map(({ vnode }) => vnode));
    const canKeep = (vnode: VNodeId) => (pnode: string) => !this.#stumbles.isPassedOver(pnode, vnode);
    for (const state of kept.of(this.#cell.state.charter.session)) {
      if (state.step < this.#cell.state.line || !this.#isResponsible(state, hosted)) continue;
      const { state: crew, nowMs } = this.#cell;
      for (const keeper of rules.keepers(crew, state.vnode, nowMs, timings, canKeep(state.vnode)))
        this.#askToKeep(keeper, state);
    }
  }

  /** Its owner, or the first of those who hold it if the owner does not. */
  #isResponsible({ vnode, step, state }: KeptState, hosted: ReadonlySet<VNodeId>): boolean {
    if (hosted.has(vnode)) return true;
    const { self, timings } = this.#cell.options;
    const held = heldState(this.#cell.state.holdings, vnode, step, (holder) =>
      isAlive(this.#cell.state, holder, this.#cell.nowMs, timings),
    );
    if (held?.state !== state) return false;
    const owners = this.#cell.state.tenures.get(vnode)?.owners ?? [];
    if (owners.some(({ pnode }) => pnode !== self.pnode && held.holders.includes(pnode))) return false;
    return successorsOf(this.#cell.state.charter.session, vnode, held.holders)[0] === self.pnode;
  }

  #askToKeep(keeper: string, { vnode, step, state, trail }: KeptState): void {
    const { tasks, peers } = this.#cell.options;
    const holds = this.#cell.state.holdings
      .get(keeper)
      ?.states.some((held) => held.state === state && held.vnode === vnode);
    const name = `${keeper} ${vnode} ${state}`;
    const peer = this.#cell.peer(keeper);
    const isPausing = this.#stumbles.isPausing(keeper, vnode);
    if (holds || isPausing || this.#keeping.has(name) || peer === undefined) return;
    this.#keeping.add(name);
    tasks.run(`a state for keeper ${keeper}`, async () => {
      try {
        const request = { session: this.#cell.state.charter.session, vnode, step: BigInt(step), state, trail };
        const { holder } = await peers.keep(peer, request);
        this.#stumbles.delete(keeper, vnode);
        if (holder === undefined || this.#cell.isStopped || holder.pnode !== keeper) return;
        this.#cell.change({
          ...this.#cell.state,
          holdings: withHolder(this.#cell.state.holdings, keeper, holderFromWire(holder)),
        });
      } catch (error) {
        // A keeper that has begun goes on by itself.
        const refusal = hasCode(error, "deadline_exceeded") ? "" : this.#stumbles.add(keeper, vnode, error);
        const why = refusal || `PNode ${keeper}: ${messageOf(error)}`;
        this.#cell.log(refusal ? "warn" : "debug", `VNode ${vnode} at step ${step} is not kept there: ${why}`);
      } finally {
        this.#keeping.delete(name);
      }
    });
  }
}

/** Fails when the signal aborts first; the work goes on. */
async function unlessAborted(work: Promise<void>, signal: AbortSignal): Promise<void> {
  let leave = () => {};
  const left = new Promise<never>((_, reject) => {
    leave = () => reject(new DcnrError("cancelled", "nobody waits for it any more"));
    if (signal.aborted) leave();
    else signal.addEventListener("abort", leave, { once: true });
  });
  try {
    await Promise.race([work, left]);
  } finally {
    signal.removeEventListener("abort", leave);
  }
}
