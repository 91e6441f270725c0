import assert from "node:assert/strict";
import { it } from "node:test";
import type { PNodeId, VNodeId } from "../../core/ids.ts";
import type { SessionRecord } from "../records/sessions.ts";
import type { VNodeRecord } from "../records/vnodes.ts";
import { account } from "./accounts.ts";
import { Chain } from "./chain.ts";
import { finalityOf } from "./final.ts";
import { nextSettlement } from "./settle.ts";

const day = 86_400_000;

it("what a session that failed has paid vests once nobody has started it again for a week", () => {
  const [vnode, pnode] = ["v" as VNodeId, "p" as PNodeId];
  const session = {
    ...{ status: "failed", line: 20, lineBefore: 10, endedWallMs: day, vnodes: [vnode] },
    policy: { checkpointEvery: 10 },
    settled: 0,
  } as unknown as SessionRecord;
  const records = new Map([[vnode, { vnode, flops: 1_000_000, work: { "10": [pnode] } } as unknown as VNodeRecord]]);
  const chain = new Chain("s");
  const settleAt = (nowWallMs: number) => {
    for (;;) {
      const next = nextSettlement(chain, finalityOf(session, records, nowWallMs));
      if (next === undefined) return;
      chain.take({ chain: "s", index: chain.size, previous: chain.last, transfer: next });
    }
  };
  const have = () => [chain.balance(account.escrow("s", pnode)), chain.balance(account.available(pnode))];
  settleAt(2 * day);
  assert.deepEqual(have(), [10, 0], "it may go on");
  settleAt(8 * day);
  assert.deepEqual(have(), [0, 10]);
});
