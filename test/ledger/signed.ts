// The signed head of a ledger that is given as its blocks.

import type { Identity } from "../../src/core/keys.ts";
import type { Block } from "../../src/orchestrator/ledger/block.ts";
import { Chain } from "../../src/orchestrator/ledger/chain.ts";
import { rootOfEnds, type SignedHead, signHead, sortedEnds } from "../../src/orchestrator/ledger/heads.ts";

export function signedHeadOf(blocks: readonly Block[], identity: Identity): SignedHead {
  const chains = new Map<string, Chain>();
  for (const block of blocks) {
    const chain = chains.get(block.chain) ?? new Chain(block.chain);
    chains.set(block.chain, chain);
    chain.take(block);
  }
  const ends = sortedEnds(chains.values());
  return signHead({ number: 1, previous: "", root: rootOfEnds(ends), chains: ends.length, wallMs: 0 }, identity);
}
