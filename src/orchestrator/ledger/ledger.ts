// The ledger of one orchestrator: follows the chains in the store, pays for what has become final, and says who has what.
// It decides nothing itself (settle.ts, chain.ts) and keeps nothing that matters: every orchestrator may do all of this.

import { fail } from "../../core/errors.ts";
import type { PNodeId, SessionId } from "../../core/ids.ts";
import { listItems } from "../../store/records/update.ts";
import type { Context } from "../context.ts";
import type { ChainRecord } from "../records/accounts.ts";
import { readSession } from "../records/fresh.ts";
import type { SessionRecord } from "../records/sessions.ts";
import { key, prefix } from "../records/store-keys.ts";
import { isLive, vnodeRecordsOf } from "../records/workloads.ts";
import { forEachAtOnce, Latest } from "../tasks.ts";
import { account, payoutsChain } from "./accounts.ts";
import type { Slash, Transfer } from "./block.ts";
import type { Chain } from "./chain.ts";
import { finalityOf } from "./final.ts";
import {
  bondSlashing,
  type Conviction,
  type FinalWork,
  type MoveRequest,
  moving,
  nextSettlement,
  slashing,
} from "./settle.ts";
import { ChainWriter } from "./writer.ts";

const readsAtOnce = 32;
/** Whoever looks at balances more often than this sees the same. */
const refreshMs = 1_000;

/** What one PNode has, and ever had. */
export interface Balance {
  readonly pnode: PNodeId;
  /** Earned, not vested yet. */
  readonly escrow: number;
  readonly available: number;
  readonly bond: number;
  /** Paid for outside of DCNR. */
  readonly outside: number;
  /** All of these together. */
  readonly earned: number;
}

export class Ledger {
  readonly #context: Context;
  readonly #writers = new Map<string, ChainWriter>();
  /** Of chains: whose budgets they count towards. */
  readonly #owners = new Map<string, string>();
  readonly #settling: Latest<SessionId>;
  #refreshing: Promise<void> | undefined;
  #refreshedMs = Number.NEGATIVE_INFINITY;
  /** Settlements that this orchestrator wrote, for metrics. */
  settlements = 0;

  constructor(context: Context) {
    this.#context = context;
    this.#settling = new Latest(context.tasks, "the settlement", (id) => this.settle(id));
  }

  /** Pays for what has become final, in the background. */
  request({ id }: SessionRecord): void {
    this.#settling.request(id);
  }

  /** Pays for what has become final, and lets vest what is old enough. */
  async settle(id: SessionId): Promise<void> {
    const { mirror } = this.#context;
    const seen = mirror.get(key.session(id));
    if (!seen) return;
    // Once it is over nobody comes back to what a mirror that is behind has missed.
    const fresh = isLive(seen) ? undefined : await readSession(this.#context, id);
    const { session, records } = fresh ?? { session: seen, records: vnodeRecordsOf(mirror, seen) };
    const finality = finalityOf(session, records, this.#context.world.clock.wallMs());
    const known = this.#writers.get(id);
    if (known && nextSettlement(known.chain, finality) === undefined) return;
    const writer = await this.#open(id, session.owner);
    const written = await writer.append((chain) => nextSettlement(chain, finality));
    this.settlements += written.length;
  }

  /** The step up to which all VNodes of a session are paid, as far as this orchestrator has read. */
  settled({ id, vnodes, settled = 0 }: SessionRecord): number {
    const chain = this.#writers.get(id)?.chain;
    return chain ? Math.max(settled, Math.min(...vnodes.map((vnode) => chain.paidTo(vnode)))) : settled;
  }

  /** What a session has spent, as far as this orchestrator has read. */
  spent(session: SessionId): number {
    return this.#writers.get(session)?.chain.spent ?? 0;
  }

  /** What all sessions of an owner have spent, those that were deleted too. */
  spentBy(owner: string): number {
    return this.spending().reduce((sum, one) => (one.owner === owner ? sum + one.spent : sum), 0);
  }

  spending(): { session: SessionId; owner: string; spent: number }[] {
    return Array.from(this.chains(), ({ name, spent }) => {
      return { session: name as SessionId, owner: this.#owners.get(name) ?? "", spent };
    }).filter(({ session }) => session !== payoutsChain);
  }

  /** Pays those who repeated an interval that is final now: each once, however often it is asked for. */
  async payAudits(id: SessionId, work: readonly FinalWork[], final: number): Promise<void> {
    if (work.length === 0) return;
    const writer = await this.#open(id, this.#context.mirror.get(key.session(id))?.owner);
    await writer.append((chain) => nextSettlement(chain, { final, work, vestingSteps: final, ended: false }));
  }

  /** Takes a convict's escrow in a session, and its bond if it has forfeited that too. To be repeated until it returns: it happens once. */
  async convict(session: SessionId, conviction: Omit<Conviction, "bond">, isBondLost: boolean): Promise<void> {
    const payouts = await this.#open(payoutsChain);
    await payouts.catchUp();
    const bond = isBondLost ? payouts.chain.balance(account.bond(conviction.convict)) : 0;
    const own = await this.#open(session);
    await own.append((chain) => slashing(chain, { ...conviction, bond }));
    if (!isBondLost) return;
    const slash = await this.#slashOf(own, conviction);
    await payouts.append((chain) => bondSlashing(chain, session, slash));
  }

  /** As it was written, by whomever: it says what the bond makes good. */
  async #slashOf({ chain }: ChainWriter, { id }: Pick<Conviction, "id">): Promise<Slash> {
    for await (const { record } of listItems<{ transfer: Transfer }>(
      this.#context.mirror.store,
      prefix.blocksOf(chain.name),
    )) {
      const { transfer } = record;
      if (transfer.kind === "slash" && transfer.ref === `slash/${id}`) return transfer;
    }
    return fail("data_loss", `the slash of case ${id} is not in the ledger of ${chain.name}, though it was written`);
  }

  /** Moves a PNode's own credits. The same id again changes nothing. `hold`: why its bond stays, whatever the ledger says. */
  async move(request: MoveRequest, hold?: string): Promise<void> {
    await this.refresh(true);
    const payouts = await this.#open(payoutsChain);
    const [available, { pnode }] = [account.available(request.pnode), request];
    let credited = 0;
    let escrowed = 0;
    for (const chain of this.chains()) {
      if (chain.name === payoutsChain) continue;
      credited += chain.balance(available);
      escrowed += chain.balance(account.escrow(chain.name, pnode));
    }
    await payouts.append((chain) => {
      const transfer = moving(chain, request, { credited, escrowed, hold });
      return transfer && "refused" in transfer ? fail("failed_precondition", transfer.refused) : transfer;
    });
  }

  /** All chains that have been read. */
  *chains(): Iterable<Chain> {
    for (const { chain } of this.#writers.values()) yield chain;
  }

  /** Reads what others have written, at most every second unless it must be now. */
  async refresh(now = false): Promise<void> {
    const { clock } = this.#context.world;
    if (!now && clock.monotonicMs() - this.#refreshedMs < refreshMs) return;
    this.#refreshing ??= this.#refresh().finally(() => {
      this.#refreshing = undefined;
    });
    await this.#refreshing;
  }

  async #refresh(): Promise<void> {
    const names: string[] = [];
    const { store } = this.#context.mirror;
    for await (const { record } of listItems<ChainRecord>(store, prefix.chains)) {
      names.push(record.name);
      this.#owners.set(record.name, record.owner);
    }
    await forEachAtOnce(names, readsAtOnce, (name) => this.#writer(name).catchUp());
    this.#refreshedMs = this.#context.world.clock.monotonicMs();
  }

  /** By PNode, of everybody who ever earned anything, as far as this orchestrator has read. */
  balances(): Balance[] {
    const sums = new Map<PNodeId, { escrow: number; available: number; bond: number; outside: number }>();
    for (const { name, balances } of this.chains())
      for (const [accountName, amount] of balances) {
        const [kind, ...rest] = accountName.split("/");
        if (kind !== "escrow" && kind !== "available" && kind !== "bond" && kind !== "outside") continue;
        const pnode = (kind === "escrow" ? accountName.slice(`escrow/${name}/`.length) : rest.join("/")) as PNodeId;
        const sum = sums.get(pnode) ?? { escrow: 0, available: 0, bond: 0, outside: 0 };
        sum[kind] += amount;
        sums.set(pnode, sum);
      }
    return Array.from(sums, ([pnode, sum]) => {
      const { escrow, available, bond, outside } = sum;
      return { pnode, ...sum, earned: escrow + available + bond + outside };
    }).sort((a, b) => b.earned - a.earned || (a.pnode < b.pnode ? -1 : 1));
  }

  /** Ready to be written to. */
  async #open(name: string, owner = ""): Promise<ChainWriter> {
    const known = this.#writers.get(name);
    if (known) return known;
    this.#owners.set(name, owner);
    const writer = this.#writer(name);
    await writer.catchUp();
    return writer;
  }

  #writer(name: string): ChainWriter {
    const { mirror, world } = this.#context;
    const known = this.#writers.get(name);
    if (known) return known;
    const writer = new ChainWriter(mirror.store, name, world, this.#owners.get(name));
    this.#writers.set(name, writer);
    return writer;
  }
}
