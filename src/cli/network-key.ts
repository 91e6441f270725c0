// The key of the whole network, which all its orchestrators show: made by the first of them, kept in the store that they
// share. Whoever can read the store can be an orchestrator, which is what the store means anyway.

import { fail } from "../core/errors.ts";
import type { StateStore } from "../store/state-store.ts";
import { newIdentity, parseIdentity, type RealIdentity } from "../system/keys.ts";

const name = "secret/network";

export async function loadNetworkKey(store: StateStore): Promise<RealIdentity> {
  const known = await store.get(name);
  if (known) return parse(known.value);
  const identity = newIdentity();
  if ((await store.put(name, JSON.stringify({ key: identity.privateKey }), 0)) !== undefined) return identity;
  // Another orchestrator was faster, or the answer to this write was lost.
  const written = await store.get(name);
  return written ? parse(written.value) : fail("unavailable", "the store does not keep the network's key: try again");
}

function parse(value: string): RealIdentity {
  const { key } = JSON.parse(value) as { readonly key: string };
  return parseIdentity(key, `the store's record ${name}`);
}
