// The vocabularies of a network: names for tokenizer.json files, kept in the store. The files are blobs in a name
// space of their own: whoever removes a dataset does not touch them.

import { type Aside, runAside } from "../core/aside.ts";
import { fail } from "../core/errors.ts";
import { parseId, type Sha256 } from "../core/ids.ts";
import type { World } from "../core/world.ts";
import type { BlobSpace } from "../store/blobs/blob-store.ts";
import type { StateStore } from "../store/records/state-store.ts";
import { createItem, deleteItem, listItems, readItem } from "../store/records/update.ts";
import { tokenizerTextMax } from "./bpe/json.ts";
import { checkingVocabulary } from "./works.ts";

/** The value of `vocabulary/{name}`. */
export interface VocabularyRecord {
  readonly name: string;
  readonly hash: Sha256;
  readonly tokens: number;
  readonly bytes: number;
  readonly createdWallMs: number;
  /** Whose key made it; absent where none was needed. */
  readonly owner?: string;
}

export interface VocabulariesOptions {
  readonly store: StateStore;
  /** The name space of vocabularies. */
  readonly blobs: Pick<BlobSpace, "get" | "size">;
  readonly world: Pick<World, "clock" | "timers" | "chance">;
  readonly aside: Aside;
}

export interface Vocabularies {
  /** Names a tokenizer.json that was uploaded as a blob. Naming the same once more is fine. */
  create(name: string, hash: Sha256, owner?: string): Promise<VocabularyRecord>;
  get(name: string): Promise<VocabularyRecord>;
  list(): AsyncIterable<VocabularyRecord>;
  /** The name goes; the file stays, since datasets that were made with it still name it. */
  delete(name: string): Promise<void>;
}

const prefix = "vocabulary/";

export function vocabularyKey(name: string): string {
  return prefix + name;
}

export function openVocabularies({ store, blobs, world, aside }: VocabulariesOptions): Vocabularies {
  const keyOf = (name: string) => prefix + parseId<string>(name, "the vocabulary's name");

  async function get(name: string): Promise<VocabularyRecord> {
    const item = await readItem<VocabularyRecord>(store, keyOf(name));
    return item?.record ?? fail("not_found", `there is no vocabulary "${name}": dcnr vocab list shows those there are`);
  }

  return {
    get,
    async create(name, hash, owner) {
      const key = keyOf(name);
      const bytes = await blobs.size(hash);
      if (bytes === undefined)
        fail("failed_precondition", `the file ${hash} of the vocabulary is not there: upload it first`);
      if (bytes > tokenizerTextMax)
        fail("resource_exhausted", `a vocabulary of ${bytes} bytes is too large: at most ${tokenizerTextMax}`);
      const tokens = await runAside(aside, checkingVocabulary, await blobs.get(hash));
      const wanted = { name, hash, tokens, bytes, createdWallMs: world.clock.wallMs(), ...(owner && { owner }) };
      const { record } = await createItem<VocabularyRecord>(store, key, wanted, world);
      if (record?.hash !== hash)
        fail("already_exists", `there is another vocabulary called "${name}": delete it or choose another name`);
      return record;
    },
    async *list() {
      for await (const { record } of listItems<VocabularyRecord>(store, prefix)) yield record;
    },
    async delete(name) {
      await get(name);
      await deleteItem<VocabularyRecord>(store, keyOf(name), world);
    },
  };
}
