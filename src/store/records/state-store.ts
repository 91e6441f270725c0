// The one thing the protocol needs from a database: single-item compare-and-set, a list by prefix,
// and a hint when something changed. Values are text (JSON by convention, see records in callers).

import type { Cancel } from "../../core/world.ts";

export interface StoredItem {
  readonly key: string;
  readonly value: string;
  /** Starts at 1 and grows by 1 with each write of the key; a deleted and recreated key starts at 1 again. */
  readonly version: number;
}

export interface ListPage {
  /** In byte order of the UTF-8 keys. */
  readonly items: readonly StoredItem[];
  /** Pass as `after` to go on; undefined at the end. */
  readonly next?: string;
}

export interface StateStore {
  get(key: string): Promise<StoredItem | undefined>;
  /**
   * Writes if the key's version is `expected` (0: the key must not exist). Returns the new version, or
   * undefined if it was not as expected. Throws `unavailable` if the outcome is unknown: read again
   * (`updateItem` in update.ts does so), never repeat blindly.
   */
  put(key: string, value: string, expected: number): Promise<number | undefined>;
  /** Deletes if the version is `expected`; false if it was not as expected. Same unknown outcomes as `put`. */
  delete(key: string, expected: number): Promise<boolean>;
  list(prefix: string, options?: { after?: string; limit?: number }): Promise<ListPage>;
  /**
   * A hint: calls back with keys under `prefix` that may have changed, by whatever process. Hints may be
   * late, repeated or missed; whoever relies on changes also lists now and then.
   */
  watch(prefix: string, onHint: (keys: readonly string[]) => void): Cancel;
  close(): Promise<void>;
}

/** DynamoDB takes items of 400 KB; all backends share the bound, so that none accepts what another refuses. */
export const valueBytesMax = 350 * 1024;
/** DynamoDB's longest sort key is 1,024 bytes. */
export const keyBytesMax = 1024;
export const listLimitDefault = 1000;
