// Which PNode a person means: its name where that is unique, its id, or the beginning of the id.

import type { Client } from "../../client/client.ts";
import { fail } from "../../core/errors.ts";

/** Shorter beginnings of ids would be guesses. */
const beginningLeast = 4;

export async function pnodeCalled(
  client: Pick<Client, "fleet">,
  text: string,
): Promise<{ readonly id: string; readonly name: string }> {
  return pnodeAmong(await client.fleet.pnodes(), text);
}

export function pnodeAmong<PNode extends { readonly id: string; readonly name: string }>(
  all: readonly PNode[],
  text: string,
): PNode {
  const exact = all.find(({ id }) => id === text);
  if (exact) return exact;
  const named = all.filter(({ name }) => name === text);
  const begun = text.length >= beginningLeast ? all.filter(({ id }) => id.startsWith(text)) : [];
  const found = named.length > 0 ? named : begun;
  if (found.length > 1)
    fail(
      "invalid_argument",
      `${found.length} PNodes are called ${text}: name one by its id, ${found.map(({ id }) => id.slice(0, 10)).join(" or ")}`,
    );
  return found[0] ?? fail("not_found", `there is no PNode ${text}: see dcnr nodes`);
}
