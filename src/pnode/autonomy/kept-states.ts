// What a PNode keeps on disk so that sessions survive without orchestrators: charters, and states of its own and of
// others, as manifests and parts named by their hashes. A part that several states share lies there once.

import { fail } from "../../core/errors.ts";
import { sha256 } from "../../core/hash.ts";
import type { SessionId, Sha256, VNodeId } from "../../core/ids.ts";
import { partLength, readStateManifest, type StateManifest, writeStateManifest } from "../../states/manifest.ts";
import type { KeptStorage } from "../options.ts";

export interface KeptState {
  readonly session: SessionId;
  readonly vnode: VNodeId;
  readonly step: number;
  readonly state: Sha256;
  readonly parts: readonly Sha256[];
  /** Blob of step hashes; empty if there are none. */
  readonly trail: Sha256 | "";
}

/** Bytes of a blob that is not here yet. */
export type Bring = (hash: Sha256, bytes: number) => Promise<Uint8Array>;

export interface Incoming extends Pick<KeptState, "session" | "vnode" | "step" | "trail"> {
  readonly manifest: StateManifest;
  readonly bring: Bring;
  /** Of the trail's blob, if there is one. */
  readonly trailBytes: number;
}

/** A state on its way here. An attempt that fails leaves what has come: the next one brings the rest. */
interface Coming {
  readonly entry: KeptState;
  /** What somebody of the session has brought of it. */
  readonly brought: Set<Sha256>;
  /** Undefined between two attempts. */
  attempt: Promise<KeptState> | undefined;
  /** Nobody wants it any more, or the disk does not take it. */
  isGivenUp: boolean;
}

/** Of the file that says what the state is made of. */
export const stateName = ({ session, vnode, step }: Pick<KeptState, "session" | "vnode" | "step">) =>
  `state-${sha256(`${session}\n${vnode}\n${step}`)}`;
const blobName = (hash: Sha256) => `blob-${hash}`;
const charterName = (session: string) => `charter-${session}`;

export class KeptStates {
  readonly #storage: KeptStorage;
  readonly #states = new Map<string, KeptState>();
  /** By all that a peer says of them, so that nobody's word spoils what another one brings. */
  readonly #coming = new Map<string, Coming>();
  /** How many states need a blob, those on their way included. */
  readonly #needed = new Map<Sha256, number>();
  readonly #here = new Set<Sha256>();
  /** Charters as they lie on disk. */
  readonly charters = new Map<SessionId, Uint8Array>();
  /** Grows with every change of what is kept. */
  changes = 0;
  /** One after another, so that what is given up is not given up while it is taken again, and no file is written and removed at once. */
  #turn: Promise<unknown> = Promise.resolve();

  constructor(storage: KeptStorage) {
    this.#storage = storage;
  }

  /** Reads what an earlier process of this PNode has left. */
  async open(): Promise<void> {
    const names = await this.#storage.list();
    for (const name of names) if (name.startsWith("blob-")) this.#here.add(name.slice("blob-".length) as Sha256);
    const read = (name: string) => this.#storage.read(name).catch(() => undefined);
    for (const name of names.filter((name) => name.startsWith("charter-"))) {
      const content = await read(name);
      if (content !== undefined) this.charters.set(name.slice("charter-".length) as SessionId, content);
    }
    for (const name of names.filter((name) => name.startsWith("state-"))) {
      const content = await read(name);
      if (content === undefined || !this.#found(name, content)) await this.#storage.remove(name);
    }
    for (const hash of this.#here) if (!this.#needed.has(hash)) await this.#remove(hash);
  }

  /** False for what is damaged, and for states of sessions without a charter: nobody would ever drop them. */
  #found(name: string, content: Uint8Array): boolean {
    try {
      const state = JSON.parse(new TextDecoder().decode(content)) as KeptState;
      if (!this.charters.has(state.session) || !blobsOf(state).every((hash) => this.#here.has(hash))) return false;
      this.#states.set(name, state);
      this.#need(state);
      return true;
    } catch {
      return false;
    }
  }

  async keepCharter(session: SessionId, content: Uint8Array): Promise<void> {
    this.charters.set(session, content);
    await this.#inTurn(async () => {
      if (this.charters.get(session) === content) await this.#storage.write(charterName(session), content);
    });
  }

  all(): KeptState[] {
    return [...this.#states.values()];
  }

  of(session: SessionId): KeptState[] {
    return this.all().filter((state) => state.session === session);
  }

  find(session: SessionId, vnode: VNodeId, step: number): KeptState | undefined {
    const found = this.#states.get(stateName({ session, vnode, step }));
    return found?.session === session ? found : undefined;
  }

  /** States of a VNode that lie here, also those of which only some does. */
  countOf(session: SessionId, vnode: VNodeId): number {
    const isOf = (state: KeptState) => state.session === session && state.vnode === vnode;
    return this.all().filter(isOf).length + [...this.#coming.values()].filter(({ entry }) => isOf(entry)).length;
  }

  /** Whether some of it lies here already, or is being brought. */
  isComing(state: Omit<KeptState, "parts">): boolean {
    return this.#coming.has(comingName(state));
  }

  /** Takes over what is not here yet; resolves when all of it lies on disk. Whoever asks while it is brought waits for that. */
  async keep(incoming: Incoming): Promise<KeptState> {
    const { session, vnode, step, manifest, trail } = incoming;
    const text = writeStateManifest(manifest);
    const state = sha256(text);
    const known = this.find(session, vnode, step);
    if (known?.state === state) return known;
    const entry: KeptState = { session, vnode, step, state, parts: [...new Set(manifest.parts)], trail };
    const coming = this.#coming.get(comingName(entry)) ?? this.#begin(entry);
    coming.attempt ??= this.#attempt(coming, incoming, text);
    return coming.attempt;
  }

  #begin(entry: KeptState): Coming {
    const coming: Coming = { entry, brought: new Set(), attempt: undefined, isGivenUp: false };
    this.#need(entry);
    this.#coming.set(comingName(entry), coming);
    return coming;
  }

  async #attempt(
    coming: Coming,
    { manifest, trail, trailBytes, bring }: Incoming,
    text: Uint8Array,
  ): Promise<KeptState> {
    try {
      // What is being let go of now is not here any more; what is let go of later is needed.
      await this.#turn;
      this.#checkRoom(coming.entry, manifest);
      for (const [index, part] of manifest.parts.entries())
        await this.#bring(coming, part, () => bring(part, partLength(manifest, index)));
      await this.#bring(coming, coming.entry.state, async () => text);
      if (trail !== "") await this.#bring(coming, trail, () => bring(trail, trailBytes));
      return await this.#inTurn(() => this.#complete(coming));
    } catch (error) {
      coming.attempt = undefined;
      if (coming.isGivenUp || coming.brought.size === 0) await this.#giveUp(coming);
      throw error;
    }
  }

  /** What will not fit is not begun: it would travel again and again. */
  #checkRoom({ vnode, step }: KeptState, manifest: StateManifest): void {
    const freeBytes = this.#storage.freeBytes?.() ?? Number.POSITIVE_INFINITY;
    const missing = new Map(manifest.parts.map((part, index) => [part, partLength(manifest, index)]));
    let bytes = 0;
    for (const [part, length] of missing) if (!this.#here.has(part)) bytes += length;
    if (bytes > freeBytes)
      fail(
        "resource_exhausted",
        `VNode ${vnode} at step ${step} takes ${bytes} bytes more, and ${freeBytes} are left of the disk that is lent for states that are kept`,
      );
  }

  /** In turn, so that of two contents of one step the later one stays, and the other leaves nothing. */
  async #complete(coming: Coming): Promise<KeptState> {
    const { entry } = coming;
    const name = stateName(entry);
    if (!coming.isGivenUp) await this.#write(coming, name, new TextEncoder().encode(JSON.stringify(entry)));
    if (coming.isGivenUp) {
      if (!this.#states.has(name)) await this.#storage.remove(name);
      fail("cancelled", `VNode ${entry.vnode} at step ${entry.step} is not needed any more`);
    }
    const before = this.#states.get(name);
    this.#states.set(name, entry);
    this.#coming.delete(comingName(entry));
    this.changes += 1;
    if (before !== undefined) await this.#let(before);
    return entry;
  }

  /** Also what lies here for another session is brought: whoever knows a blob's name alone has no part in it. */
  async #bring(coming: Coming, hash: Sha256, bring: () => Promise<Uint8Array>): Promise<void> {
    const { brought, entry } = coming;
    if (coming.isGivenUp) fail("cancelled", `VNode ${entry.vnode} at step ${entry.step} is not needed any more`);
    if (brought.has(hash)) return;
    if (!this.#here.has(hash) || !this.isOf(entry.session, hash)) {
      const content = await bring();
      if (!this.#here.has(hash)) await this.#write(coming, blobName(hash), content);
      this.#here.add(hash);
    }
    brought.add(hash);
  }

  /** What the disk does not take as a whole leaves its room to others. */
  async #write(coming: Coming, name: string, content: Uint8Array): Promise<void> {
    try {
      await this.#storage.write(name, content);
    } catch (error) {
      coming.isGivenUp = true;
      throw error;
    }
  }

  has(hash: Sha256): boolean {
    return this.#here.has(hash);
  }

  /** Whether somebody of the session has brought it. */
  isOf(session: SessionId, hash: Sha256): boolean {
    return (
      this.of(session).some((state) => blobsOf(state).includes(hash)) ||
      [...this.#coming.values()].some(({ entry, brought }) => entry.session === session && brought.has(hash))
    );
  }

  /** As it lies on disk; whoever uses it compares its hash. */
  async read(hash: Sha256): Promise<Uint8Array | undefined> {
    return this.#here.has(hash) ? this.#storage.read(blobName(hash)) : undefined;
  }

  /** A state that can be stored elsewhere, part by part. */
  async snapshot(kept: KeptState): Promise<{
    readonly bytes: number;
    manifest(): Promise<StateManifest>;
    part(index: number): Promise<Uint8Array>;
  }> {
    const what = `the kept state of VNode ${kept.vnode} at step ${kept.step}`;
    const gone = () => fail("not_found", `${what} is not on disk any more`);
    const manifest = readStateManifest((await this.read(kept.state)) ?? gone(), what);
    return {
      bytes: manifest.bytes,
      manifest: async () => manifest,
      part: async (index) => (await this.read(manifest.parts[index] as Sha256)) ?? gone(),
    };
  }

  /** Nobody goes back further than to the line before without an orchestrator. */
  dropBelow(session: SessionId, step: number): Promise<void> {
    return this.#drop((state) => state.session === session && state.step < step);
  }

  /** The session has ended, or its charter. */
  async forget(session: SessionId): Promise<void> {
    this.charters.delete(session);
    await this.#drop((state) => state.session === session);
    await this.#inTurn(async () => {
      if (!this.charters.has(session)) await this.#storage.remove(charterName(session));
    });
  }

  /** What is on its way is dropped as well, whenever it comes. */
  async #drop(isDropped: (state: KeptState) => boolean): Promise<void> {
    const dropping: Promise<void>[] = [];
    for (const [name, coming] of [...this.#coming].filter(([, { entry }]) => isDropped(entry))) {
      coming.isGivenUp = true;
      this.#coming.delete(name);
      if (coming.attempt === undefined) dropping.push(this.#giveUp(coming));
    }
    for (const state of this.all().filter(isDropped)) {
      const name = stateName(state);
      this.#states.delete(name);
      this.changes += 1;
      dropping.push(
        this.#inTurn(async () => {
          if (!this.#states.has(name)) await this.#storage.remove(name);
          await this.#let(state);
        }),
      );
    }
    await Promise.all(dropping);
  }

  #giveUp(coming: Coming): Promise<void> {
    const name = comingName(coming.entry);
    if (this.#coming.get(name) === coming) this.#coming.delete(name);
    return this.#inTurn(() => this.#let(coming.entry));
  }

  #need(state: KeptState): void {
    for (const hash of blobsOf(state)) this.#needed.set(hash, (this.#needed.get(hash) ?? 0) + 1);
  }

  /** Only in turn. */
  async #let(state: KeptState): Promise<void> {
    for (const hash of blobsOf(state)) {
      const left = (this.#needed.get(hash) ?? 1) - 1;
      if (left > 0) this.#needed.set(hash, left);
      else {
        this.#needed.delete(hash);
        await this.#remove(hash);
      }
    }
  }

  #inTurn<T>(work: () => Promise<T>): Promise<T> {
    const working = this.#turn.then(work);
    this.#turn = working.catch(() => {});
    return working;
  }

  async #remove(hash: Sha256): Promise<void> {
    this.#here.delete(hash);
    await this.#storage.remove(blobName(hash));
  }
}

function comingName(state: Omit<KeptState, "parts">): string {
  return `${stateName(state)} ${state.state} ${state.trail}`;
}

function blobsOf({ state, parts, trail }: KeptState): Sha256[] {
  return [...new Set([state, ...parts, ...(trail === "" ? [] : [trail])])];
}

/** For PNodes without a disk: what they keep ends with them. */
export function memoryKept(): KeptStorage {
  const files = new Map<string, Uint8Array>();
  return {
    list: async () => [...files.keys()],
    read: async (name) => files.get(name),
    write: async (name, content) => void files.set(name, content.slice()),
    remove: async (name) => void files.delete(name),
  };
}
