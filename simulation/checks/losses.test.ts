import assert from "node:assert/strict";
import { test } from "node:test";
import { LedgerChecker } from "./ledger.ts";

/** What the checker says of a session that goes back once, of which `slashes` give the same loss to `p`. */
function said(slashes: readonly (readonly [chain: string, ref: string, credits: number])[]): string[] {
  const wrong: string[] = [];
  const checker = new LedgerChecker((_, message) => wrong.push(message));
  const write = (key: string, after: object) => checker.wrote({ atMs: 0, key, after: JSON.stringify(after) } as never);
  const session = { id: "s", status: "running", line: 10, lineBefore: 0, final: 0, policy: { replicas: 2 } };
  const vnode = { session: "s", vnode: "v", flops: 10_000_000 };
  write("session/s", session);
  write("vnode/s/v", { ...vnode, work: { "10": ["p", "q", "late"], "20": ["p"] } });
  write("session/s", { ...session, line: 0, turn: 1, voided: { turn: 1, line: 0 } });
  // Nobody has tidied it yet: what is void was lost once.
  write("vnode/s/v", { ...vnode, work: { "10": ["p", "q", "late"], "20": ["p"] } });
  write("session/s", { ...session, line: 0, turn: 2, voided: { turn: 2, line: 0 } });
  for (const [index, [chain, ref, credits]] of slashes.entries()) {
    const legs = { [`escrow/s/liar-${index}`]: -credits, "available/p": credits };
    write(`block/${chain}/${index}`, { chain, transfer: { kind: "slash", ref, legs } });
  }
  return wrong;
}

test("a loss that is made good twice is found, whoever pays for it", () => {
  assert.deepEqual(said([["s", "slash/10/0/liar", 200]]), []);
  assert.deepEqual(
    said([
      ["s", "slash/10/0/a", 120],
      ["payouts", "slash/s/10/0/a", 80],
    ]),
    [],
  );
  const found = "gives p 400 credits in all for what it has lost, which is 200";
  assert.deepEqual(
    said([
      ["s", "slash/10/0/a", 200],
      ["s", "slash/10/0/b", 200],
    ]),
    [`block/s/1 ${found}`],
  );
  const bond = said([
    ["s", "slash/10/0/a", 200],
    ["payouts", "slash/s/10/0/a", 200],
  ]);
  assert.deepEqual(bond, [`block/payouts/1 ${found}`]);
});
