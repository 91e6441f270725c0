// Which key speaks for an id now. Keys that succeed others prove it by themselves (certificate.ts); a process that has seen a
// newer key, or was told of one by somebody it believes, takes the older one from nobody any more.

import { Recent } from "../../core/caches/recent.ts";
import type { KeyId } from "../../core/ids.ts";

/** Far more than there are rotated keys among those whom one process talks to. */
const knownMax = 100_000;

export class KeyBook {
  readonly #newest = new Recent<KeyId, KeyId>(knownMax);
  readonly #onSucceeded: (pinned: KeyId, newest: KeyId) => void;

  /** `onSucceeded` hears of keys that prove to have succeeded one that was expected. */
  constructor(onSucceeded: (pinned: KeyId, newest: KeyId) => void = () => {}) {
    this.#onSucceeded = onSucceeded;
  }

  /** The newest key that is known to speak for whoever was known by this one. */
  newest(pinned: KeyId): KeyId {
    return this.#newest.get(pinned) ?? pinned;
  }

  /** Whether somebody with these keys, the present one last, is whoever was known by `pinned`, as far as is known here. */
  follows(pinned: KeyId, keys: readonly KeyId[]): boolean {
    const newest = this.newest(pinned);
    const present = keys.at(-1) as KeyId;
    if (present === newest) return true;
    if (!keys.includes(newest)) return false;
    this.#newest.set(pinned, present);
    this.#onSucceeded(pinned, present);
    return true;
  }

  /** Somebody who knows says so. */
  tell(pinned: KeyId, newest: KeyId): void {
    if (pinned === newest) this.#newest.delete(pinned);
    else this.#newest.set(pinned, newest);
  }
}
