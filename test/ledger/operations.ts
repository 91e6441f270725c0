// Random operations on one ledger by several orchestrators at once, in a store that loses requests and replies, with
// orchestrators that crash and forget what they had read. What must come out is counted apart, by a model too simple to be
// wrong: lists of what became final and of what was asked for.

import { SeededChance } from "../../simulation/world/chance.ts";
import { hasCode } from "../../src/core/errors.ts";
import type { PNodeId, VNodeId } from "../../src/core/ids.ts";
import type { World } from "../../src/core/world.ts";
import { account, creditsOf, payoutsChain } from "../../src/orchestrator/ledger/accounts.ts";
import { type Block, parseBlock, type Share, type Slash } from "../../src/orchestrator/ledger/block.ts";
import {
  bondSlashing,
  type FinalWork,
  moving,
  nextSettlement,
  slashing,
} from "../../src/orchestrator/ledger/settle.ts";
import { ChainWriter } from "../../src/orchestrator/ledger/writer.ts";
import { withFaults } from "../../src/store/records/faulty.testing.ts";
import type { StateStore } from "../../src/store/records/state-store.ts";

export interface OperationsOptions {
  readonly operations: number;
  readonly seed: number;
  readonly world: World;
  /** Of one orchestrator; closed by whoever opened it. */
  readonly open: () => Promise<StateStore>;
  readonly orchestrators?: number;
  /** Hears every block in the end. */
  readonly onBlock?: (block: Block) => void;
  readonly onProgress?: (done: number) => void;
}

export interface Outcome {
  readonly operations: number;
  readonly blocks: number;
  readonly conflicts: number;
  readonly crashes: number;
  readonly lost: number;
  /** What contradicts the model; empty: nothing. */
  readonly problems: readonly string[];
}

const vnodes = ["first", "middle", "last"] as VNodeId[];
const flops = [2_500_000, 40_100, 7_777_777];
const pnodes = Array.from({ length: 24 }, (_, index) => `p${index}` as PNodeId);
const checkpointEvery = 20;
const vestingSteps = 40 * checkpointEvery;

interface Model {
  /** By session, in the order in which it became final. */
  readonly work: FinalWork[][];
  readonly final: number[];
  readonly cases: {
    readonly session: number;
    readonly id: string;
    readonly convict: PNodeId;
    readonly losses: Share[];
    /** Those that were convicted together have brought about the same losses. */
    readonly turn: number;
  }[];
  readonly payouts: Map<string, { readonly pnode: PNodeId; readonly credits: number }>;
}

class Orchestrator {
  readonly #store: StateStore;
  readonly #world: World;
  #writers = new Map<string, ChainWriter>();
  conflicts = 0;

  constructor(store: StateStore, world: World) {
    this.#store = store;
    this.#world = world;
  }

  /** Chains that it has read. */
  get known(): ChainWriter[] {
    return [...this.#writers.values()];
  }

  /** Of a session that is over. */
  forget(name: string): void {
    this.conflicts += this.#writers.get(name)?.conflicts ?? 0;
    this.#writers.delete(name);
  }

  /** Forgets everything that it has read. */
  crash(): void {
    for (const { conflicts } of this.#writers.values()) this.conflicts += conflicts;
    this.#writers = new Map();
  }

  async chain(name: string): Promise<ChainWriter> {
    const known = this.#writers.get(name);
    if (known) return known;
    const writer = new ChainWriter(this.#store, name, this.#world);
    this.#writers.set(name, writer);
    for (;;) {
      try {
        await writer.catchUp();
        return writer;
      } catch (thrown) {
        if (!hasCode(thrown, "unavailable")) throw thrown;
      }
    }
  }
}

/** Operations under way at a time. */
const lanes = 4;
/** Sessions under way at a time; each ends after so many operations, and another takes its place. */
const atOnce = 6;
const operationsPerSession = 500;
/** Whoever has crashed reads and judges everything again, which grows with the square of a run: often enough to matter, and no more. */
const crashesMost = 60;
/** Counted, not drawn: draws depend on who is faster, and a short run would now and then have none. */
const operationsPerCrash = (operations: number) => Math.max(100, Math.ceil(operations / crashesMost));

export async function runOperations(options: OperationsOptions): Promise<Outcome> {
  const { operations, seed, world, open, onProgress } = options;
  const chance = new SeededChance(seed, "ledger operations");
  let lost = 0;
  const fault = () => {
    const drawn = chance.uniform();
    if (drawn >= 0.02) return "none";
    lost += 1;
    return drawn < 0.01 ? "lost request" : "lost reply";
  };
  const stores = await Promise.all(Array.from({ length: options.orchestrators ?? 3 }, open));
  const all = stores.map((store) => new Orchestrator(withFaults(store, fault), world));
  const model: Model = { work: [], final: [], cases: [], payouts: new Map() };
  let first = 0;
  let crashes = 0;
  let begun = 0;
  const lane = async () => {
    while (begun < operations) {
      const now = ++begun;
      if (onProgress && now % 10_000 === 0) onProgress(now);
      if (now % operationsPerSession === 0) await finish(all, model, first++);
      const session = first + chance.whole(0, atOnce - 1);
      const kind = chance.uniform();
      if (kind < 0.7) advance(model, session, chance);
      const several = all.filter(() => chance.happens(0.6));
      if (kind < 0.86) await Promise.all(several.map((one) => settle(one, model, session)));
      else if (kind < 0.87) {
        accuse(model, session, chance);
        await Promise.all(several.map((one) => convict(one, model)));
      } else {
        const request = { pnode: chance.pick(pnodes), credits: chance.whole(1, 2_000) };
        const as = chance.pick(["payout", "bond", "release"] as const);
        model.payouts.set(`${as}/${now}`, request);
        await Promise.all(several.map((one) => move(one, model, as, String(now))));
      }
      if (now % operationsPerCrash(operations) !== 0) continue;
      chance.pick(all).crash();
      crashes += 1;
    }
  };
  await Promise.all(Array.from({ length: lanes }, lane));
  await Promise.all(all.map((one) => convict(one, model)));
  for (let session = first; session < model.final.length; session++) await finish(all, model, session);
  for (const one of all) one.crash();
  const { problems, blocks } = await compare(model, stores[0] as StateStore, options.onBlock);
  for (const store of stores) await store.close();
  return { operations, blocks, conflicts: all.reduce((sum, one) => sum + one.conflicts, 0), crashes, lost, problems };
}

/** The session ends: all of its pay vests. */
async function finish(all: readonly Orchestrator[], model: Model, session: number): Promise<void> {
  await Promise.all(all.map((one) => settle(one, model, session, true)));
  for (const one of all) one.forget(nameOf(session));
}

const nameOf = (session: number) => `session-${session}`;

/** The next checkpoint of every VNode becomes final: some have two owners, some a checker. */
function advance({ work, final }: Model, session: number, chance: SeededChance): void {
  const from = final[session] ?? 0;
  const to = from + checkpointEvery;
  final[session] = to;
  work[session] ??= [];
  for (const [index, vnode] of vnodes.entries()) {
    const [owner, copy, auditor] = [chance.pick(pnodes), chance.pick(pnodes), chance.pick(pnodes)];
    const one = { vnode, from, to, flops: flops[index] ?? 0, role: "worker" as const };
    work[session]?.push({ ...one, pnode: owner });
    if (copy !== owner && chance.happens(0.1)) work[session]?.push({ ...one, pnode: copy });
    if (chance.happens(0.1)) work[session]?.push({ ...one, role: "auditor", pnode: auditor });
  }
}

function accuse({ cases }: Model, session: number, chance: SeededChance): void {
  const losses = [chance.pick(pnodes), chance.pick(pnodes)].map((pnode) => ({ pnode, credits: chance.whole(0, 499) }));
  const turn = cases.length + 1;
  for (let count = chance.whole(1, 2); count > 0; count--)
    cases.push({ session, id: `case-${cases.length}`, convict: chance.pick(pnodes), losses, turn });
}

/** Only what is recent: as in production, where records forget what was paid long ago. */
async function settle(one: Orchestrator, { work, final }: Model, session: number, ended = false): Promise<void> {
  if (final[session] === undefined) return;
  const writer = await one.chain(nameOf(session));
  const finality = { final: final[session], work: work[session] ?? [], vestingSteps, ended };
  const paid = Math.min(...vnodes.map((vnode) => writer.chain.paidTo(vnode)));
  const recent = finality.work.slice(finality.work.findIndex(({ to }) => to > paid - checkpointEvery));
  await repeatedly(() => writer.append((chain) => nextSettlement(chain, { ...finality, work: recent })));
}

async function convict(one: Orchestrator, { cases }: Model): Promise<void> {
  for (const { session, id, convict: pnode, losses, turn } of cases.slice(-4)) {
    const [own, payouts] = [await one.chain(nameOf(session)), await one.chain(payoutsChain)];
    const bond = payouts.chain.balance(account.bond(pnode));
    let slash: Slash | undefined;
    await repeatedly(() =>
      own.append((chain) => {
        const next = slashing(chain, { id, convict: pnode, losses, since: turn, turn, bond });
        if (next) slash = next;
        return next;
      }),
    );
    // Whoever did not write the slash leaves the bond to the one who did, here.
    const written = slash;
    if (written === undefined) continue;
    await repeatedly(() => payouts.append((chain) => bondSlashing(chain, nameOf(session), written)));
  }
}

async function move(one: Orchestrator, model: Model, kind: "payout" | "bond" | "release", id: string): Promise<void> {
  const request = model.payouts.get(`${kind}/${id}`);
  if (!request) return;
  const { pnode, credits } = request;
  let [credited, escrowed] = [0, 0];
  for (const { chain } of one.known) {
    if (chain.name === payoutsChain) continue;
    credited += chain.balance(account.available(pnode));
    escrowed += chain.balance(account.escrow(chain.name, pnode));
  }
  const payouts = await one.chain(payoutsChain);
  await repeatedly(() =>
    payouts.append((chain) => {
      const transfer = moving(chain, { id, kind, pnode, credits, note: "" }, { credited, escrowed, hold: undefined });
      return transfer && "refused" in transfer ? undefined : transfer;
    }),
  );
}

async function repeatedly(work: () => Promise<unknown>): Promise<void> {
  for (;;) {
    try {
      await work();
      return;
    } catch (thrown) {
      if (!hasCode(thrown, "unavailable")) throw thrown;
    }
  }
}

/** All blocks, in the order of chains' names and indices. */
async function* blocksIn(store: StateStore): AsyncGenerator<Block> {
  let after: string | undefined;
  do {
    const page = await store.list("block/", after === undefined ? {} : { after });
    for (const { key, value } of page.items) yield parseBlock(value, key);
    after = page.next;
  } while (after !== undefined);
}

/** Counts the blocks by hand, with none of the ledger's own rules. */
async function compare(
  model: Model,
  store: StateStore,
  onBlock: (block: Block) => void = () => {},
): Promise<{ problems: string[]; blocks: number }> {
  const problems: string[] = [];
  const sums = new Map<string, number>();
  const debtors = new Map<string, string>();
  const made = new Map<string, number>();
  let refs = new Set<string>();
  let paid: string[] = [];
  let blocks = 0;
  let last = "";
  for await (const block of blocksIn(store)) {
    const { chain, transfer } = block;
    onBlock(block);
    if (chain !== last) {
      problems.push(...workProblems(model, last, paid));
      refs = new Set();
      paid = [];
      last = chain;
    }
    blocks += 1;
    let sum = 0;
    for (const [name, amount] of Object.entries(transfer.legs)) {
      sum += amount;
      sums.set(name, (sums.get(name) ?? 0) + amount);
      if (amount >= 0) continue;
      if ((debtors.get(name) ?? chain) !== chain) problems.push(`${name} is debited by two chains`);
      debtors.set(name, chain);
    }
    if (sum !== 0) problems.push(`${chain} ${transfer.ref}: legs sum to ${sum}`);
    if (refs.has(transfer.ref)) problems.push(`${chain} ${transfer.ref} stands there twice`);
    refs.add(transfer.ref);
    if (transfer.kind === "settle") paid.push(...transfer.work.map((one) => described(one, one.credits)));
    if (transfer.kind === "slash") credit(made, model, transfer);
    if ("credits" in transfer) {
      const asked = model.payouts.get(transfer.ref);
      if (asked?.credits !== transfer.credits || asked.pnode !== transfer.pnode)
        problems.push(`${transfer.ref} moves ${transfer.credits} of ${transfer.pnode}, which nobody asked for`);
    }
  }
  problems.push(...workProblems(model, last, paid));
  for (const [loss, credits] of made)
    if (credits > lostIn(model, loss))
      problems.push(`${credits} are made good of ${loss}, lost were ${lostIn(model, loss)}`);
  const total = [...sums.values()].reduce((sum, amount) => sum + amount, 0);
  if (total !== 0) problems.push(`all accounts sum to ${total}`);
  for (const [name, amount] of sums)
    if (amount < 0 && !name.startsWith("mint/")) problems.push(`${name} is below zero: ${amount}`);
  return { problems: problems.slice(0, 20), blocks };
}

/** By the turn in which it was lost, and by whom. */
function credit(made: Map<string, number>, { cases }: Model, { ref, legs }: Slash): void {
  const turn = cases.find(({ id }) => ref.endsWith(`/${id}`))?.turn;
  for (const [name, amount] of Object.entries(legs)) {
    if (!name.startsWith("available/")) continue;
    const loss = `${turn} ${name.slice("available/".length)}`;
    made.set(loss, (made.get(loss) ?? 0) + amount);
  }
}

function lostIn({ cases }: Model, loss: string): number {
  const [turn, pnode] = loss.split(" ");
  const { losses = [] } = cases.find((one) => String(one.turn) === turn) ?? {};
  return losses.reduce((sum, one) => (one.pnode === pnode ? sum + one.credits : sum), 0);
}

function described({ vnode, from, to, pnode, role }: FinalWork, credits: number): string {
  return `${vnode} ${from} ${to} ${pnode} ${role} ${credits}`;
}

/** Everything that became final is paid, once, and nothing else. */
function workProblems({ work }: Model, chain: string, paid: readonly string[]): string[] {
  const session = /^session-(\d+)$/.exec(chain)?.[1];
  if (session === undefined) return [];
  const due = (work[Number(session)] ?? []).map((one) => described(one, creditsOf(one.flops, one.from, one.to)));
  const problems = new Set(paid).size === paid.length ? [] : [`${chain} pays twice`];
  for (const one of new Set(due).difference(new Set(paid))) problems.push(`${chain} unpaid: ${one}`);
  for (const one of new Set(paid).difference(new Set(due))) problems.push(`${chain} paid, and nobody's work: ${one}`);
  return problems;
}
