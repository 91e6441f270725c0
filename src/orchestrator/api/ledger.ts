// LedgerService: who has earned what, the chains for whoever verifies them, payouts, bonds and budgets.

import { fail } from "../../core/errors.ts";
import { idLengthMax, type PNodeId, parseId } from "../../core/ids.ts";
import { LedgerService } from "../../protocol/gen/dcnr/v1/ledger_pb.ts";
import { type ServedService, service } from "../../protocol/network.ts";
import type { Context } from "../context.ts";
import { payoutsChain } from "../ledger/accounts.ts";
import { parseBlock, textOfBlock } from "../ledger/block.ts";
import { type Budgets, ownerCalled } from "../ledger/budgets.ts";
import type { SignedHead } from "../ledger/heads.ts";
import type { HeadsKeeper } from "../ledger/heads-keeper.ts";
import type { Balance, Ledger } from "../ledger/ledger.ts";
import { pnodeName } from "../records/names.ts";
import { key, prefix } from "../records/store-keys.ts";
import { bondHold } from "../trust/bonds.ts";
import { page, pageByPosition } from "./pages.ts";

export interface LedgerApiNeeds {
  readonly context: Context;
  readonly ledger: Ledger;
  readonly heads: HeadsKeeper;
  readonly budgets: Budgets;
}

/** Below what a message takes, even if every block is as large as blocks get. */
const blocksAtOnce = 500;
const blockBytesAtOnce = 2 << 20;
const noteMax = 200;

export function ledgerService({ context, ledger, heads, budgets }: LedgerApiNeeds): ServedService {
  const { mirror, events, world } = context;
  return service(LedgerService, {
    listBalances: async (request) => {
      await ledger.refresh();
      const all = ledger.balances().map((balance) => balanceView(context, balance));
      const { owner } = request;
      const asked = all.filter((one) => owner === "" || [one.owner, one.name, one.pnode].includes(owner));
      const { items, nextPageToken } = pageByPosition(asked, request, 1_000);
      return { balances: items, nextPageToken };
    },
    listSpending: async (request) => {
      await ledger.refresh();
      const { items, nextPageToken } = page(ledger.spending(), ({ session }) => session, request);
      const spending = items.map(({ session, owner, spent }) => {
        const budget = mirror.get(key.session(session))?.policy.budget ?? 0;
        return { session, owner, spent: BigInt(spent), budget: BigInt(budget) };
      });
      const bounds = budgets.all().map(({ owner, credits }) => {
        return { owner, spent: BigInt(ledger.spentBy(owner)), budget: BigInt(credits) };
      });
      return { spending, nextPageToken, budgets: bounds };
    },
    getHead: async () => {
      const made = await heads.current();
      if (!made) fail("unavailable", "the ledger has no signed head yet: try again");
      const ends = made.ends.map(({ chain, size, root }) => ({ chain, size: BigInt(size), root }));
      return { head: headView(made.head), ends };
    },
    listBlocks: async ({ chain, from }) => {
      const first = Number(from);
      if (chain !== payoutsChain) parseId(chain, "the chain");
      const after = first > 0 ? { after: key.block(chain, first - 1) } : {};
      const { items } = await mirror.store.list(prefix.blocksOf(chain), { ...after, limit: blocksAtOnce });
      const blocks: string[] = [];
      let bytes = 0;
      for (const item of items) {
        bytes += item.value.length;
        if (blocks.length > 0 && bytes > blockBytesAtOnce) break;
        blocks.push(textOfBlock(parseBlock(item.value, `the store's record ${item.key}`)));
      }
      return { blocks };
    },
    recordPayout: async ({ id, pnode: text, credits, note }, { caller }) => {
      const pnode = parseId<PNodeId>(text, "the PNode's id");
      await ledger.move({ ...checkedMove(id, credits), kind: "payout", pnode, note: note.slice(0, noteMax) });
      const by = `(by ${caller.id ?? "a caller"})`;
      const message = `${credits} credits of PNode ${pnodeName(mirror, pnode)} were paid out ${by}`;
      events.emit("info", "admin.payout", message, { pnode });
      return {};
    },
    moveBond: async ({ id, credits, release }, { caller }) => {
      const pnode = caller.id as string as PNodeId;
      const hold = release ? bondHold(mirror, pnode, world.clock.wallMs()) : undefined;
      await ledger.move({ ...checkedMove(id, credits), kind: release ? "release" : "bond", pnode, note: "" }, hold);
      return {};
    },
    setBudget: async ({ owner, credits }, { caller }) => {
      if (owner.length > idLengthMax) fail("invalid_argument", `an owner has at most ${idLengthMax} letters`);
      await budgets.set(owner, Number(credits));
      const bound = credits > 0n ? `${credits} credits` : "without a bound";
      const by = `(by ${caller.id ?? "a caller"})`;
      events.emit("info", "admin.budget", `the budget of ${ownerCalled(owner)} is ${bound} ${by}`);
      return {};
    },
  });
}

function checkedMove(id: string, credits: bigint): { id: string; credits: number } {
  const amount = Number(credits);
  if (!Number.isSafeInteger(amount) || amount < 1) fail("invalid_argument", `${credits} credits cannot be moved`);
  return { id: parseId<string>(id, "the id of the move"), credits: amount };
}

function balanceView({ mirror }: Context, balance: Balance) {
  const { pnode, escrow, available, bond, outside, earned } = balance;
  const record = mirror.get(key.pnode(pnode));
  return {
    ...{ pnode: pnode as string, name: record?.name ?? "", owner: record?.owner ?? "" },
    ...{ escrow: BigInt(escrow), available: BigInt(available), bond: BigInt(bond) },
    ...{ outside: BigInt(outside), earned: BigInt(earned) },
  };
}

export function headView({ number, previous, root, chains, wallMs, publicKey, signature }: SignedHead) {
  return {
    ...{ number: BigInt(number), previous, root: root as string, chains: BigInt(chains), wallMs: BigInt(wallMs) },
    ...{ publicKey: Buffer.from(publicKey, "base64"), signature: Buffer.from(signature, "base64") },
  };
}
