// The link with which a machine joins a network: where its orchestrators are, which key they show, and the token that lets
// the machine in. Whoever has it needs nothing else, so it is given to people one trusts and not posted.

import { fail } from "../../core/errors.ts";
import type { KeyId } from "../../core/ids.ts";
import { isKeyId } from "../../core/keys.ts";
import { formatAddress, parseAddress, withKey, withoutKey } from "../routes/address.ts";

export interface InviteLink {
  /** "host:port", at least one. */
  readonly addresses: readonly string[];
  readonly key: KeyId;
  /** Empty for a network that is open to everybody. */
  readonly token: string;
  /** For people; may be empty. */
  readonly name: string;
}

const scheme = "dcnr://";
const addressesMax = 16;

export function isInviteLink(text: string): boolean {
  return text.startsWith(scheme);
}

export function formatInviteLink({ addresses, key, token, name }: InviteLink): string {
  const query = new URLSearchParams({ ...(token && { invite: token }), ...(name && { name }) }).toString();
  return `${scheme}${addresses.map(withoutKey).join(",")}/${key}${query && `?${query}`}`;
}

export function parseInviteLink(text: string): InviteLink {
  const damaged = (why: string) =>
    fail("invalid_argument", `the link is damaged: ${why}. Copy it whole, from dcnr:// to its end`);
  const [, places, key, query = ""] = /^dcnr:\/\/([^/?#\s]+)\/([^/?#\s]+)(?:\?(\S*))?$/.exec(text) ?? [];
  if (places === undefined || key === undefined) return damaged("it has no address or no key");
  if (!isKeyId(key)) return damaged("its key is not 52 letters and digits");
  const addresses = places.split(",");
  if (addresses.length > addressesMax) return damaged(`it names more than ${addressesMax} addresses`);
  const parameters = new URLSearchParams(query);
  return {
    addresses: addresses.map((address) => {
      const { host, port } = parseAddress(address);
      return formatAddress(host, port);
    }),
    key,
    token: parameters.get("invite") ?? "",
    name: parameters.get("name") ?? "",
  };
}

/** For `dcnr join`: a link's addresses with its key, or what was given. */
export function joinedBy(words: readonly string[]): { readonly addresses: readonly string[]; readonly invite: string } {
  const [first = ""] = words;
  if (!isInviteLink(first)) return { addresses: words, invite: "" };
  if (words.length > 1) fail("invalid_argument", "a link says everything: give it alone");
  const { addresses, key, token } = parseInviteLink(first);
  return { addresses: addresses.map((address) => withKey(address, key)), invite: token };
}
