// The key of the whole network, which all its orchestrators show: made by the first of them, kept in the store that they
// share. Whoever can read the store can be an orchestrator, which is what the store means anyway. It may be replaced while
// they run: whichever is asked writes the new one, and the others show it when they see it.

import { fail, messageOf } from "../../../core/errors.ts";
import type { KeyId } from "../../../core/ids.ts";
import { type Identity, keyIdOf } from "../../../core/keys.ts";
import { type Cancel, every, type World } from "../../../core/world.ts";
import type { StateStore } from "../../../store/records/state-store.ts";
import { createItem, readItem, updateItem } from "../../../store/records/update.ts";
import { identityText, newIdentity, parseIdentity, type RealIdentity, succeeded } from "../../../system/keys.ts";

const name = "secret/network";
/** Hints may get lost. */
const lookMs = 2_000;

/** What others see of the key. */
export interface Shown {
  readonly key?: KeyId | undefined;
  become(identity: RealIdentity): void;
}

/** The key that an orchestrator shows, and the same one as it signs with: both the newest, whenever that comes. */
export function presentKey(
  identity: RealIdentity,
  network: Shown,
): { readonly shown: Shown; readonly signing: Identity } {
  let present = identity;
  return {
    shown: {
      get key() {
        return network.key;
      },
      become: (next) => {
        present = next;
        network.become(next);
      },
    },
    signing: {
      id: identity.id,
      get publicKey() {
        return present.publicKey;
      },
      get former() {
        return present.former ?? [];
      },
      sign: (content) => present.sign(content),
    },
  };
}

interface NetworkKeyRecord {
  /** As identities are kept in files. */
  readonly key: string;
}

export async function loadNetworkKey(store: StateStore, world: World): Promise<RealIdentity> {
  const known = await readItem<NetworkKeyRecord>(store, name);
  if (known) return parse(known.record);
  const { record } = await createItem(store, name, { key: identityText(newIdentity()) }, world);
  return parse(record ?? fail("unavailable", "the store does not keep the network's key: try again"));
}

/** The present key signs for a new one, which replaces it. */
export async function rotateNetworkKey(store: StateStore, world: World, network: Shown): Promise<KeyId> {
  const { record } = await updateItem<NetworkKeyRecord>(
    store,
    name,
    (current) => current && { key: identityText(succeeded(parse(current))) },
    world,
  );
  const next = parse(record ?? fail("data_loss", "the store has lost the network's key"));
  network.become(next);
  return keyIdOf(next.publicKey);
}

/** Shows whatever key the store holds, until cancelled. */
export function followNetworkKey(store: StateStore, world: World, network: Shown): Cancel {
  const look = async () => {
    try {
      const found = await readItem<NetworkKeyRecord>(store, name);
      const identity = found && parse(found.record);
      if (identity && keyIdOf(identity.publicKey) !== network.key) network.become(identity);
    } catch (error) {
      world.log("debug", `the network's key could not be looked at: ${messageOf(error)}`);
    }
  };
  const unwatch = store.watch(name, () => void look());
  const stop = every(world.timers, lookMs, look);
  return () => {
    unwatch();
    stop();
  };
}

function parse({ key }: NetworkKeyRecord): RealIdentity {
  return parseIdentity(key, `the store's record ${name}`);
}
