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

/** Of the file that says what the state is made of. */
export const stateName = ({ session, vnode, step }: Pick<KeptState, "session" | "vnode" | "step">) =>
  `state-${sha256(`${session}\n${vnode}\n${step}`)}`;
const blobName = (hash: Sha256) => `blob-${hash}`;
const charterName = (session: string) => `charter-${session}`;

export class KeptStates {
  readonly #storage: KeptStorage;
  readonly #states = new Map<string, KeptState>();
  /** How many states need a blob, those included that are being written. */
  readonly #needed = new Map<Sha256, number>();
  readonly #here = new Set<Sha256>();
  /** Charters as they lie on disk. */
  readonly charters = new Map<SessionId, Uint8Array>();
  /** Grows with every change of what is kept. */
  changes = 0;
  /** Adding and dropping the same blob at once would leave half of it. */
  #turn: Promise<unknown> = Promise.resolve();

  constructor(storage: KeptStorage) {
    this.#storage = storage;
  }

  /** Reads what an earlier process of this PNode has left. */
  async open(): Promise<void> {
    const names = await this.#storage.list();
    for (const name of names) if (name.startsWith("blob-")) this.#here.add(name.slice("blob-".length) as Sha256);
    for (const name of names) {
      if (!name.startsWith("charter-") && !name.startsWith("state-")) continue;
      const content = await this.#storage.read(name).catch(() => undefined);
      if (content === undefined) continue;
      if (name.startsWith("charter-")) this.charters.set(name.slice("charter-".length) as SessionId, content);
      else this.#found(name, content);
    }
    for (const hash of this.#here) if (!this.#needed.has(hash)) await this.#remove(hash);
  }

  /** Damaged entries are as good as none. */
  #found(name: string, content: Uint8Array): void {
    try {
      const state = JSON.parse(new TextDecoder().decode(content)) as KeptState;
      if (blobsOf(state).every((hash) => this.#here.has(hash))) {
        this.#states.set(name, state);
        this.#need(state);
      }
    } catch {
      // Nobody relies on it.
    }
  }

  async keepCharter(session: SessionId, content: Uint8Array): Promise<void> {
    this.charters.set(session, content);
    await this.#storage.write(charterName(session), content);
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

  /** Takes over what is not here yet; resolves when all of it lies on disk. */
  async keep(incoming: Incoming): Promise<KeptState> {
    const { session, vnode, step, manifest, trail, trailBytes, bring } = incoming;
    const text = writeStateManifest(manifest);
    const state = sha256(text);
    const known = this.find(session, vnode, step);
    if (known?.state === state) return known;
    const entry: KeptState = { session, vnode, step, state, parts: [...new Set(manifest.parts)], trail };
    this.#need(entry);
    try {
      await this.#turn;
      for (const [index, part] of manifest.parts.entries())
        await this.#bring(session, part, () => bring(part, partLength(manifest, index)));
      await this.#bring(session, state, async () => text);
      if (trail !== "") await this.#bring(session, trail, () => bring(trail, trailBytes));
      await this.#storage.write(stateName(entry), new TextEncoder().encode(JSON.stringify(entry)));
    } catch (error) {
      await this.#let(entry);
      throw error;
    }
    this.#states.set(stateName(entry), entry);
    this.changes += 1;
    if (known !== undefined) await this.#let(known);
    return entry;
  }

  /** Also what lies here for another session is brought: whoever knows a blob's name alone has no part in it. */
  async #bring(session: SessionId, hash: Sha256, bring: () => Promise<Uint8Array>): Promise<void> {
    if (this.#here.has(hash) && this.isOf(session, hash)) return;
    const content = await bring();
    if (this.#here.has(hash)) return;
    await this.#storage.write(blobName(hash), content);
    this.#here.add(hash);
  }

  has(hash: Sha256): boolean {
    return this.#here.has(hash);
  }

  /** Whether a state of the session needs it. */
  isOf(session: SessionId, hash: Sha256): boolean {
    return this.of(session).some((state) => blobsOf(state).includes(hash));
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
  async dropBelow(session: SessionId, step: number): Promise<void> {
    for (const state of this.of(session)) if (state.step < step) await this.#drop(state);
  }

  /** The session has ended, or its charter. */
  async forget(session: SessionId): Promise<void> {
    for (const state of this.of(session)) await this.#drop(state);
    this.charters.delete(session);
    await this.#storage.remove(charterName(session));
  }

  async #drop(state: KeptState): Promise<void> {
    const name = stateName(state);
    if (this.#states.get(name) !== state) return;
    this.#states.delete(name);
    this.changes += 1;
    await this.#storage.remove(name);
    await this.#let(state);
  }

  #need(state: KeptState): void {
    for (const hash of blobsOf(state)) this.#needed.set(hash, (this.#needed.get(hash) ?? 0) + 1);
  }

  /** One after another, so that what is given up is not given up while it is taken again. */
  #let(state: KeptState): Promise<void> {
    const letting = this.#turn.then(async () => {
      for (const hash of blobsOf(state)) {
        const left = (this.#needed.get(hash) ?? 1) - 1;
        if (left > 0) this.#needed.set(hash, left);
        else {
          this.#needed.delete(hash);
          await this.#remove(hash);
        }
      }
    });
    this.#turn = letting.catch(() => {});
    return letting;
  }

  async #remove(hash: Sha256): Promise<void> {
    this.#here.delete(hash);
    await this.#storage.remove(blobName(hash));
  }
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
