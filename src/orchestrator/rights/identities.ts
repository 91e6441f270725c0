// Keys that have succeeded others. An id stays whoever it is; which key speaks for it is written down when a newer one is
// first shown with the older one's word for it, and from then on the older one is refused at every orchestrator.

import { fail } from "../../core/errors.ts";
import type { KeyId } from "../../core/ids.ts";
import type { Caller } from "../../protocol/network.ts";
import type { Context } from "../context.ts";
import type { IdentityRecord } from "../records/machines.ts";
import { key } from "../records/store-keys.ts";
import type { Acts } from "./acts.ts";

type Verdict =
  | { readonly kind: "current" }
  | { readonly kind: "newer"; readonly next: IdentityRecord }
  | { readonly kind: "replaced" };

/** What it means that somebody shows these keys, the present one last, whose words have been checked. Pure. */
export function shown(record: IdentityRecord | undefined, keys: readonly KeyId[], nowMs: number): Verdict {
  const [id, present] = [keys[0] as KeyId, keys.at(-1) as KeyId];
  const known = record?.keys ?? [{ key: id, fromWallMs: 0 }];
  const current = known.at(-1)?.key;
  if (present === current) return { kind: "current" };
  const since = keys.indexOf(current as KeyId);
  if (since < 0) return { kind: "replaced" };
  const before = known.map((one) => (one.key === current ? { ...one, untilWallMs: nowMs } : one));
  const newer = keys.slice(since + 1).map((one) => ({
    ...{ key: one, fromWallMs: nowMs },
    ...(one !== present && { untilWallMs: nowMs }),
  }));
  return { kind: "newer", next: { id, keys: [...before, ...newer] } };
}

export class Identities {
  readonly #context: Context;
  readonly #acts: Acts;
  readonly #isKnown: (id: KeyId) => Promise<boolean>;

  /** `isKnown`: whether the network has anything to do with an id; strangers leave no records. */
  constructor(context: Context, acts: Acts, isKnown: (id: KeyId) => Promise<boolean>) {
    this.#context = context;
    this.#acts = acts;
    this.#isKnown = isKnown;
  }

  /** The key that speaks for an id now. */
  current(id: KeyId): KeyId {
    return this.#context.mirror.get(key.identity(id))?.keys.at(-1)?.key ?? id;
  }

  /** Fails for whoever shows a key that was replaced; notes a newer one. */
  async check(caller: Caller): Promise<void> {
    const { mirror, world, events } = this.#context;
    const { id, keys } = caller;
    if (id === undefined) return;
    const record = mirror.get(key.identity(id));
    if (record === undefined && keys === undefined) return;
    const all = keys ?? [id];
    const verdict = shown(record, all, world.clock.wallMs());
    if (verdict.kind === "replaced") throw replaced(id);
    if (verdict.kind === "current" || !(await this.#isKnown(id))) return;
    const present = all.at(-1) as KeyId;
    await this.#acts.log("SucceedKey", present, caller, async () => {
      const { written } = await mirror.update(key.identity(id), (current) => {
        const now = shown(current, all, world.clock.wallMs());
        if (now.kind === "replaced") throw replaced(id);
        return now.kind === "newer" ? now.next : undefined;
      });
      if (written) events.emit("info", "key.succeeded", `${id} shows a new key from now on: ${present}`, {});
    });
  }
}

function replaced(id: KeyId): Error {
  return fail("unauthenticated", `the key of ${id} was replaced by a newer one: use that, or become somebody new`);
}
