// The state of the whole ledger in one signed line: a root over the ends of all chains, numbered, linked to the one before
// it, and signed with the network's key. Whoever exports the ledger gets one with it: two that kept theirs can show that they were told
// two pasts. Nobody compares heads by itself yet.

import { canonicalJson, sha256 } from "../../core/hash.ts";
import type { KeyId, Sha256 } from "../../core/ids.ts";
import { type Identity, keyIdOf, type Verify } from "../../core/keys.ts";
import type { Chain } from "./chain.ts";
import { leafHash, rootOf } from "./merkle.ts";

/** The end of one chain. */
export interface ChainEnd {
  readonly chain: string;
  readonly size: number;
  /** Of the tree over its blocks' hashes. */
  readonly root: Sha256;
}

export interface Head {
  readonly number: number;
  /** Hash of the head before; empty in the first. */
  readonly previous: string;
  /** Of the tree over the ends of all chains, in the order of their names. */
  readonly root: Sha256;
  readonly chains: number;
  readonly wallMs: number;
}

export interface SignedHead extends Head {
  /** Of the network, base64 of its DER form; its hash is the network's id. */
  readonly publicKey: string;
  /** Base64. */
  readonly signature: string;
}

export function endOf({ name, size, root }: Chain): ChainEnd {
  return { chain: name, size, root };
}

export function sortedEnds(chains: Iterable<Chain>): ChainEnd[] {
  const ends = Array.from(chains, endOf).filter(({ size }) => size > 0);
  return ends.sort((a, b) => (a.chain < b.chain ? -1 : 1));
}

export function leafOfEnd(end: ChainEnd): Sha256 {
  return leafHash(canonicalJson(end));
}

export function rootOfEnds(ends: readonly ChainEnd[]): Sha256 {
  return rootOf(ends.map(leafOfEnd));
}

function textOf({ number, previous, root, chains, wallMs }: Head): string {
  return `dcnr ledger head 1\n${canonicalJson({ number, previous, root, chains, wallMs })}`;
}

export function hashOfHead(head: Head): Sha256 {
  return sha256(textOf(head));
}

export function signHead(head: Head, identity: Identity): SignedHead {
  const signature = Buffer.from(identity.sign(Buffer.from(textOf(head)))).toString("base64");
  return { ...head, publicKey: Buffer.from(identity.publicKey).toString("base64"), signature };
}

/** Whose key has signed the head; undefined if nobody's has. */
export function signerOf(head: SignedHead, verify: Verify): KeyId | undefined {
  const publicKey = Buffer.from(head.publicKey, "base64");
  const holds = verify(publicKey, Buffer.from(textOf(head)), Buffer.from(head.signature, "base64"));
  return holds ? keyIdOf(publicKey) : undefined;
}
