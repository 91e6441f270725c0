// The rules of the ledger, each by a block that breaks it; merkle paths against trees built naively.

import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { sha256 } from "../../core/hash.ts";
import type { PNodeId, Sha256, VNodeId } from "../../core/ids.ts";
import { account, creditsOf, payoutsChain } from "./accounts.ts";
import type { Block, Settle, Share, Slash, Transfer, Work } from "./block.ts";
import { Chain, moveLegs, settleLegs } from "./chain.ts";
import { GrowingTree, leafHash, pathTo, rootFromPath } from "./merkle.ts";
import {
  bondSlashing,
  type Conviction,
  type Finality,
  type FinalWork,
  type Holdings,
  moving,
  nextSettlement,
  slashing,
} from "./settle.ts";

const [alice, bob, carol] = ["alice", "bob", "carol"] as PNodeId[] as [PNodeId, PNodeId, PNodeId];
const vnode = "block.1" as VNodeId;

function work(from: number, to: number, pnode = alice, role: Work["role"] = "worker"): FinalWork {
  return { vnode, from, to, pnode, role, flops: 3_000_000 };
}

function finality(final: number, works: readonly FinalWork[], changes: Partial<Finality> = {}): Finality {
  return { final, work: works, vestingSteps: 40, ended: false, ...changes };
}

function add(chain: Chain, transfer: Transfer | undefined): Transfer {
  assert.ok(transfer);
  const block = follow(chain, transfer);
  assert.deepEqual(chain.problems(block), []);
  chain.take(block);
  return transfer;
}

function follow(chain: Chain, transfer: Transfer): Block {
  return { chain: chain.name, index: chain.size, previous: chain.last, transfer };
}

function settleAll(chain: Chain, asked: Finality): number {
  let blocks = 0;
  for (let next = nextSettlement(chain, asked); next; next = nextSettlement(chain, asked)) {
    add(chain, next);
    blocks += 1;
  }
  return blocks;
}

function conviction(convict: PNodeId, losses: readonly Share[], changes: Partial<Conviction> = {}): Conviction {
  return { id: `case of ${convict}`, convict, losses, since: 1, turn: 1, bond: 0, ...changes };
}

describe("credits", () => {
  it("are whole, and add up however the steps are cut", () => {
    for (const flops of [1, 333_333, 999_999, 1_000_001, 7e12]) {
      let sum = 0;
      for (let step = 0; step < 97; step += 1) sum += creditsOf(flops, step, step + 1);
      assert.equal(sum, creditsOf(flops, 0, 97));
    }
    assert.equal(creditsOf(2_500_000, 0, 3), 7);
  });
});

function laidDown(pnode: PNodeId, credits: number) {
  return { legs: moveLegs({ kind: "bond", pnode, credits }), pnode, credits, note: "" };
}

describe("a session's chain", () => {
  it("pays what is final once, to whomever asks and however often", () => {
    const chain = new Chain("s");
    assert.equal(settleAll(chain, finality(20, [work(0, 20), work(20, 40)])), 1);
    assert.equal(chain.balance(account.escrow("s", alice)), 60);
    assert.equal(settleAll(chain, finality(20, [work(0, 20)])), 0);
    assert.equal(chain.spent, 60);
  });

  it("pays only what is left of an interval that was cut in another way before the session went back", () => {
    const chain = new Chain("s");
    settleAll(chain, finality(40, [work(0, 40)]));
    settleAll(chain, finality(60, [work(20, 60, bob)]));
    assert.equal(chain.balance(account.escrow("s", alice)), 120);
    assert.equal(chain.balance(account.escrow("s", bob)), 60);
  });

  it("pays all copies that computed an interval, and checkers like workers, each once", () => {
    const chain = new Chain("s");
    const all = [work(0, 20), work(0, 20, bob), work(0, 20, carol, "auditor")];
    settleAll(chain, finality(20, all));
    for (const pnode of [alice, bob, carol]) assert.equal(chain.balance(account.escrow("s", pnode)), 60);
    assert.equal(settleAll(chain, finality(20, all)), 0);
    assert.equal(settleAll(chain, finality(20, [work(0, 20, alice, "auditor")])), 1);
  });

  it("lets pay vest when the final line is far enough ahead, and all of it at the end", () => {
    const chain = new Chain("s");
    for (let step = 20; step <= 60; step += 20) settleAll(chain, finality(step, [work(step - 20, step)]));
    assert.equal(chain.balance(account.available(alice)), 60);
    assert.equal(chain.balance(account.escrow("s", alice)), 120);
    settleAll(chain, finality(80, [work(60, 80)], { ended: true }));
    assert.equal(chain.balance(account.available(alice)), 240);
    assert.equal(chain.balance(account.escrow("s", alice)), 0);
  });

  it("is cut into blocks of a bounded size, with copies of one interval together", () => {
    const many = Array.from({ length: 500 }, (_, index): FinalWork[] =>
      [alice, bob].map((pnode) => ({ ...work(0, 20, pnode), vnode: `v${index}` as VNodeId })),
    ).flat();
    const chain = new Chain("s");
    assert.equal(settleAll(chain, finality(20, many)), 4);
    assert.equal(chain.spent, 60_000);
  });

  it("takes all of a convict's escrow once: losses are made good, the rest is nobody's", () => {
    const chain = new Chain("s");
    settleAll(chain, finality(20, [work(0, 20)]));
    const losses = [
      { pnode: bob, credits: 50 },
      { pnode: carol, credits: 30 },
    ];
    add(chain, slashing(chain, conviction(alice, losses)));
    assert.equal(chain.balance(account.escrow("s", alice)), 0);
    assert.equal(chain.balance(account.available(bob)), 50);
    assert.equal(chain.balance(account.available(carol)), 10);
    assert.equal(slashing(chain, conviction(alice, losses)), undefined);
    settleAll(chain, finality(20, [], { ended: true }));
    assert.equal(chain.balance(account.available(alice)), 0, "nothing of it vests afterwards");
    const second = add(chain, slashing(chain, conviction(alice, losses, { id: "another" })));
    assert.deepEqual(second.legs, {});
  });

  it("makes one loss good once, however many are convicted of it, of whatever they lose", () => {
    const [chain, payouts] = [new Chain("s"), new Chain(payoutsChain)];
    const [dave, erin] = ["dave", "erin"] as PNodeId[] as [PNodeId, PNodeId];
    settleAll(chain, finality(20, [work(0, 20, alice), work(0, 20, bob), work(0, 20, dave), work(0, 20, erin)]));
    add(payouts, { kind: "bond", ref: "bond/1", ...laidDown(bob, 50) });
    const losses = [{ pnode: carol, credits: 150 }];
    const made = () => chain.balance(account.available(carol)) + payouts.balance(account.available(carol));
    add(chain, slashing(chain, conviction(alice, losses)));
    assert.equal(made(), 60);
    // The next escrow comes before the bond that was taken before it has paid.
    const ofBob = add(chain, slashing(chain, conviction(bob, losses, { bond: 50 }))) as Slash;
    add(chain, slashing(chain, conviction(dave, losses)));
    assert.equal(bondSlashing(payouts, "s", ofBob)?.losses[0]?.credits, 30);
    add(payouts, bondSlashing(payouts, "s", ofBob));
    assert.equal(bondSlashing(payouts, "s", ofBob), undefined);
    assert.equal(made(), 150);
    assert.equal(chain.balance(account.forfeit("s")), 60, "what nobody has lost is nobody's");
    assert.equal(payouts.balance(account.forfeit(payoutsChain)), 20);
    // Planned when the session was at an earlier turn: what was lost since may be the same work.
    const later = { id: "another", since: 1, turn: 4 };
    assert.deepEqual(slashing(chain, conviction(erin, losses, later))?.losses, []);
    assert.deepEqual(slashing(chain, conviction(erin, losses, { ...later, since: 2 }))?.losses, losses);
  });

  it("refuses what breaks a rule, whoever wrote it", () => {
    const chain = new Chain("s");
    settleAll(chain, finality(20, [work(0, 20)]));
    const paying = (...all: readonly Work[]): Settle => ({
      kind: "settle",
      ref: "settle/x",
      legs: settleLegs("s", { work: all, vests: [] }),
      work: all,
      upTo: 0,
      vests: [],
    });
    const next: Work = { ...work(20, 40), credits: 60 };
    const right = paying(next);
    assert.deepEqual(chain.problems(follow(chain, right)), []);
    const wrong: Record<string, Transfer> = {
      "has been done already": { ...right, ref: "settle/20" },
      "do not sum to zero": { ...right, legs: { ...right.legs, [account.escrow("s", alice)]: 61 } },
      "its legs are not what it says": {
        ...right,
        legs: { [account.mint("s")]: -60, [account.escrow("s", bob)]: 60 },
      },
      "is debited by s": { ...right, legs: { [account.available(bob)]: -60, [account.escrow("s", alice)]: 60 } },
      "are not worth 61": paying({ ...next, credits: 61 }),
      "are paid twice": paying({ ...work(10, 30), credits: 60 }),
      "are none": paying({ ...work(40, 40), credits: 0 }),
      "are old enough": {
        ...paying(),
        upTo: 20,
        vests: [{ pnode: alice, credits: 61 }],
        legs: settleLegs("s", { work: [], vests: [{ pnode: alice, credits: 61 }] }),
      },
      "belongs to payouts": {
        kind: "payout",
        ref: "payout/1",
        legs: { [account.available(bob)]: -1, [account.outside(bob)]: 1 },
        pnode: bob,
        credits: 1,
        note: "",
      },
    };
    for (const [problem, transfer] of Object.entries(wrong))
      assert.match(chain.problems(follow(chain, transfer)).join("; "), new RegExp(problem));
    const other = { ...follow(chain, right), previous: sha256("another past") };
    assert.match(chain.problems(other).join(), /does not follow/);
  });
});

describe("payouts", () => {
  it("move no more than sessions have credited, and each once", () => {
    const payouts = new Chain(payoutsChain);
    const ask = (id: string, kind: "payout" | "bond" | "release", credits: number, held: Partial<Holdings> = {}) =>
      moving(
        payouts,
        { id, kind, pnode: alice, credits, note: "" },
        { credited: 100, escrowed: 0, hold: undefined, ...held },
      );
    assert.deepEqual(ask("a", "payout", 101), { refused: "100 credits of alice are available, 101 were asked for" });
    add(payouts, ask("a", "payout", 60) as Transfer);
    assert.equal(ask("a", "payout", 60), undefined);
    add(payouts, ask("b", "bond", 40) as Transfer);
    assert.ok("refused" in (ask("c", "payout", 1) ?? {}));
    const refused = (held: Partial<Holdings>) => "refused" in (ask("c", "release", 40, held) ?? {});
    assert.ok(refused({ escrowed: 5 }), "a bond stays while there is work that has not vested");
    assert.ok(refused({ hold: "it hosts a VNode" }), "and while there is work that may be found wrong");
    add(payouts, ask("c", "release", 40) as Transfer);
    assert.equal(payouts.balance(account.bond(alice)), 0);
    assert.equal(ask("c", "release", 40, { hold: "it hosts a VNode" }), undefined, "what was done is done");
  });
});

describe("a tree of hashes", () => {
  it("leads from every leaf to the root that a naive tree has, and from no other leaf", () => {
    const naive = (leaves: readonly Sha256[]): Sha256 => {
      if (leaves.length === 1) return leaves[0] as Sha256;
      let cut = 1;
      while (cut * 2 < leaves.length) cut *= 2;
      return sha256(`node ${naive(leaves.slice(0, cut))} ${naive(leaves.slice(cut))}`);
    };
    const tree = new GrowingTree();
    const leaves: Sha256[] = [];
    for (let size = 1; size <= 33; size++) {
      const leaf = leafHash(`item ${size}`);
      leaves.push(leaf);
      tree.add(leaf);
      assert.equal(tree.root, naive(leaves));
      for (let index = 0; index < size; index++) {
        const path = pathTo(leaves, index);
        assert.equal(rootFromPath(leaves[index] as Sha256, index, size, path), tree.root);
        assert.notEqual(rootFromPath(leafHash("another"), index, size, path), tree.root);
        assert.notEqual(
          rootFromPath(leaves[index] as Sha256, (index + 1) % (size + 1), size, path),
          size > 1 && tree.root,
        );
      }
    }
  });
});
