// What the commands about credits share: balances by owner, and an exported ledger as its orchestrator tells it.

import { readFile } from "node:fs/promises";
import { join } from "node:path";
import type { Client } from "../../client/client.ts";
import { fail } from "../../core/errors.ts";
import type { Sha256 } from "../../core/ids.ts";
import { type Block, parseBlock } from "../../orchestrator/ledger/block.ts";
import type { SignedHead } from "../../orchestrator/ledger/heads.ts";
import type { Balance } from "../../protocol/gen/dcnr/v1/ledger_pb.ts";
import { parseIdentity, type RealIdentity } from "../../system/keys.ts";
import { dataFolder } from "../machine/directories.ts";

export interface OwnerBalance {
  readonly owner: string;
  readonly machines: number;
  readonly earned: bigint;
  readonly available: bigint;
  readonly escrow: bigint;
  readonly bond: bigint;
  readonly outside: bigint;
}

/** A machine whose owner said no name stands for itself. */
export function byOwner(balances: readonly Balance[]): OwnerBalance[] {
  const groups = Map.groupBy(balances, ({ owner, name, pnode }) => owner || name || pnode);
  const sum = (all: readonly Balance[], part: (one: Balance) => bigint) =>
    all.reduce((left, one) => left + part(one), 0n);
  return Array.from(groups, ([owner, all]) => ({
    owner,
    machines: all.length,
    earned: sum(all, (one) => one.earned),
    available: sum(all, (one) => one.available),
    escrow: sum(all, (one) => one.escrow),
    bond: sum(all, (one) => one.bond),
    outside: sum(all, (one) => one.outside),
  })).sort((a, b) => (a.earned === b.earned ? 0 : a.earned < b.earned ? 1 : -1));
}

/** The key with which this computer lends itself; undefined if it never has. */
export async function machineKey(directory: string | undefined): Promise<RealIdentity | undefined> {
  const path = join(directory ?? join(dataFolder(process.env), "pnode"), "key.pem");
  const text = await readFile(path, "utf8").catch(() => undefined);
  return text === undefined ? undefined : parseIdentity(text, path);
}

export function wholeCredits(text: string): number {
  const credits = Number(text);
  return text !== "" && Number.isSafeInteger(credits) && credits >= 0
    ? credits
    : fail("invalid_argument", `credits are a whole number from 0 on, not "${text}"`);
}

export interface FetchedLedger {
  readonly head: SignedHead;
  /** In the order of their names, each as long as the head says. */
  readonly chains: ReadonlyMap<string, readonly Block[]>;
}

export async function fetchLedger(client: Client): Promise<FetchedLedger> {
  const { head, ends } = await client.credits.head();
  if (!head) fail("data_loss", "the orchestrator tells no head of its ledger");
  const chains = new Map<string, Block[]>();
  for (const { chain, size } of ends) {
    const blocks: Block[] = [];
    for await (const text of client.credits.blocks(chain, Number(size)))
      blocks.push(parseBlock(text, `block ${blocks.length} of the chain ${chain}`));
    chains.set(chain, blocks);
  }
  const { number, chains: count, wallMs, previous, root, publicKey, signature } = head;
  return {
    head: {
      ...{ number: Number(number), chains: Number(count), wallMs: Number(wallMs), previous, root: root as Sha256 },
      ...{ publicKey: base64(publicKey), signature: base64(signature) },
    },
    chains,
  };
}

function base64(bytes: Uint8Array): string {
  return Buffer.from(bytes).toString("base64");
}
