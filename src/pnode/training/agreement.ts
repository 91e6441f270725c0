// What the owners of one VNode say of a message that all of them send. In a session that is checked it is taken when all of them have said the same hash,
// so that one of them cannot pass something else on. If they contradict each other, what most say is taken, and among equals what every receiver
// would take: the line cannot pass that, and a third machine finds out who is wrong. No I/O.

import { keyOf, type MessageName } from "../../vnode/names.ts";

export interface Said {
  readonly name: MessageName;
  readonly hash: string;
  /** The machine that says so. */
  readonly by: string;
}

export type Heard<One> =
  /** The content may be taken: it was said often enough. */
  | { readonly kind: "agreed"; readonly content: One; readonly unused?: One }
  /** Somebody else has yet to say the same; `unused` is a content that is not needed. */
  | { readonly kind: "waiting"; readonly unused?: One }
  /** So it is, but its content is not here. */
  | { readonly kind: "wanted" };

interface Entry<One> {
  readonly step: number;
  /** By machine; who says something else later has changed its mind. */
  readonly hashes: Map<string, string>;
  held?: { readonly hash: string; readonly content: One };
}

export class Agreement<One> {
  readonly #entries = new Map<string, Entry<One>>();

  /** `owners`: of the VNode that sends it, as orchestrators say now. `content` may come later, or never. */
  hear({ name, hash, by }: Said, content: One | undefined, owners: number): Heard<One> {
    const key = keyOf(name);
    const entry: Entry<One> = this.#entries.get(key) ?? { step: name.step, hashes: new Map() };
    this.#entries.set(key, entry);
    entry.hashes.set(by, hash);
    const { held } = entry;
    const said = decided(entry.hashes, owners);
    if (said === undefined) {
      if (held !== undefined) return content === undefined ? { kind: "waiting" } : { kind: "waiting", unused: content };
      if (content === undefined) return { kind: "wanted" };
      entry.held = { hash, content };
      return { kind: "waiting" };
    }
    if (content !== undefined && hash === said) return this.#agreed(key, content, held?.content);
    if (held?.hash === said) return this.#agreed(key, held.content, content);
    if (hash === said) return { kind: "wanted" };
    return content === undefined ? { kind: "waiting" } : { kind: "waiting", unused: content };
  }

  /** Whoever has said something else of it than this. */
  contradicted({ name, hash }: Said): { readonly by: string; readonly hash: string } | undefined {
    for (const [by, other] of this.#entries.get(keyOf(name))?.hashes ?? [])
      if (other !== hash) return { by, hash: other };
    return undefined;
  }

  /** Contents that nobody needs any more: of steps below this one. */
  forgetBelow(step: number): One[] {
    const unused: One[] = [];
    for (const [key, entry] of this.#entries) {
      if (entry.step >= step) continue;
      if (entry.held !== undefined) unused.push(entry.held.content);
      this.#entries.delete(key);
    }
    return unused;
  }

  #agreed(key: string, content: One, unused: One | undefined): Heard<One> {
    this.#entries.delete(key);
    return unused === undefined ? { kind: "agreed", content } : { kind: "agreed", content, unused };
  }
}

/** The hash that counts, if enough have spoken. */
function decided(hashes: ReadonlyMap<string, string>, owners: number): string | undefined {
  const counts = new Map<string, number>();
  for (const hash of hashes.values()) counts.set(hash, (counts.get(hash) ?? 0) + 1);
  const [[hash, count] = ["", 0]] = [...counts].sort(([a, m], [b, n]) => n - m || (a < b ? -1 : 1));
  return count >= owners || hashes.size >= owners ? hash : undefined;
}
