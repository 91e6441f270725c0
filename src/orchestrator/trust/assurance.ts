// How far results are checked unless somebody says: a network that strangers may join finds out who lies; one that only this
// machine reaches, or whose machines were all chosen by somebody, has nobody to find.

import type { Assurance } from "../../network/settings/session.ts";
import { isLoopback, parseAddress } from "../../protocol/routes/address.ts";
import type { Context } from "../context.ts";
import { key } from "../records/store-keys.ts";

export function usualAssurance({ mirror, address, verify }: Context): Assurance {
  const join = mirror.get(key.policy())?.join ?? "open";
  const isOpen = join === "open" && !isLoopback(parseAddress(address, 0).host);
  return isOpen && verify !== undefined ? "sampled" : "none";
}
