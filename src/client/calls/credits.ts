// Calls about credits: what was earned and spent, and the chains that say so; and what was checked of it.

import { fail } from "../../core/errors.ts";
import { type Balance, LedgerService } from "../../protocol/gen/dcnr/v1/ledger_pb.ts";
import { TrustService } from "../../protocol/gen/dcnr/v1/trust_pb.ts";
import { allPages, type Line } from "./line.ts";

export const creditCalls = (line: Line) => ({
  /** Who earned most comes first; `owner` may also be a PNode's name or id. */
  balances: (owner = ""): Promise<Balance[]> =>
    allPages(async (pageToken) => {
      const method = LedgerService.method.listBalances;
      const page = await line.call(method, { owner, pageToken });
      return { items: page.balances, next: page.nextPageToken };
    }),
  spending: async (pageToken = "") => line.call(LedgerService.method.listSpending, { pageToken }),
  /** The newest signed state, with the ends of all chains. */
  head: () => line.call(LedgerService.method.getHead, {}),
  /** The first `size` blocks of a chain, as they are hashed. */
  blocks: async function* (chain: string, size: number): AsyncGenerator<string> {
    for (let from = 0; from < size; ) {
      const { blocks } = await line.call(LedgerService.method.listBlocks, {
        chain,
        from: BigInt(from),
      });
      if (blocks.length === 0) fail("data_loss", `the chain ${chain} ends at ${from} blocks, its head says ${size}`);
      yield* blocks.slice(0, size - from);
      from += blocks.length;
    }
  },
  /** Notes that credits were paid for outside; the same id again changes nothing. */
  payout: (payout: { id: string; pnode: string; credits: number; note?: string }) =>
    line.call(LedgerService.method.recordPayout, {
      ...payout,
      credits: BigInt(payout.credits),
    }),
  /** For a client that shows a PNode's own key. */
  bond: (move: { id: string; credits: number; release?: boolean }) =>
    line.call(LedgerService.method.moveBond, { ...move, credits: BigInt(move.credits) }),
  setBudget: (owner: string, credits: number) =>
    line.call(LedgerService.method.setBudget, { owner, credits: BigInt(credits) }),
});

/** What was checked, by whom, and what follows for machines and sessions. */
export const trustCalls = (line: Line) => ({
  standings: async (pnode = "") => (await line.call(TrustService.method.listStandings, { pnode })).standings,
  assurance: (session: string) => line.call(TrustService.method.getAssurance, { session }),
  set: (pnode: string, standing: "trusted" | "known" | "banned", reason = "") =>
    line.call(TrustService.method.setTrust, { pnode, standing, reason }),
});
