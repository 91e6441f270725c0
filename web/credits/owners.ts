// Balances by owner, the most earned first: what a machine earned is its owner's. Pure.

import type { Balance } from "../../src/protocol/gen/dcnr/v1/ledger_pb.ts";

const parts = ["earned", "available", "escrow", "bond", "outside"] as const;
type Amounts = Readonly<Record<(typeof parts)[number], bigint>>;

export interface OwnerBalance extends Amounts {
  readonly owner: string;
  readonly machines: number;
}

/** A machine whose owner said no name stands for itself. */
export function byOwner(balances: readonly (Amounts & Pick<Balance, "owner" | "name" | "pnode">)[]): OwnerBalance[] {
  const owners = new Map<string, OwnerBalance>();
  for (const balance of balances) {
    const owner = balance.owner || balance.name || balance.pnode;
    const before = owners.get(owner) ?? {
      owner,
      machines: 0,
      earned: 0n,
      available: 0n,
      escrow: 0n,
      bond: 0n,
      outside: 0n,
    };
    const sums = Object.fromEntries(parts.map((part) => [part, before[part] + balance[part]])) as unknown as Amounts;
    owners.set(owner, { owner, machines: before.machines + 1, ...sums });
  }
  return Array.from(owners.values()).sort((a, b) => Number(b.earned - a.earned) || a.owner.localeCompare(b.owner));
}
