import assert from "node:assert/strict";
import { it } from "node:test";
import type { PNodeId } from "../../core/ids.ts";
import { openMemoryStore } from "../../store/memory.ts";
import { realWorld } from "../../system/world.ts";
import { Mirror } from "../records/mirror.ts";
import { key } from "../records/store-keys.ts";
import { bondHold } from "./bonds.ts";

const p = "p" as PNodeId;
const day = 86_400_000;
const checked = {
  id: "s",
  status: "running",
  vnodes: ["v"],
  final: 10,
  policy: { assurance: "checked" },
  endedWallMs: 0,
};
const vnode = { session: "s", vnode: "v", members: [], durable: {}, stepHashes: {}, failures: [] };
const interval = { session: "s", from: 10, to: 20, turn: 0, owners: {}, audits: {} };

/** Why the bond of `p` stays where these records are in the store. */
async function hold(session: object, records: { vnode?: object; interval?: object; standing?: object }, now = 0) {
  const mirror = new Mirror(openMemoryStore(), realWorld({ logFormat: "none" }));
  await mirror.update(key.session("s" as never), () => ({ ...checked, ...session }) as never);
  await mirror.update(key.vnode("s" as never, "v" as never), () => ({ ...vnode, ...records.vnode }) as never);
  if (records.interval)
    await mirror.update(key.interval("s" as never, 20), () => ({ ...interval, ...records.interval }) as never);
  if (records.standing) await mirror.update(key.standing(p), () => records.standing as never);
  return bondHold(mirror, p, now);
}

it("a bond stays while its machine hosts what is checked, or anything that it has done there is not final", async () => {
  const members = [{ pnode: p }];
  assert.match((await hold({}, { vnode: { members } })) ?? "", /hosts VNode v of session s/);
  assert.equal(await hold({ policy: {} }, { vnode: { members } }), undefined, "nobody looks there");
  const left = [{ work: { "20": [p] } }, { statements: { "30": [{ pnode: p }] } }];
  for (const one of left) assert.match((await hold({}, { vnode: one })) ?? "", /has computed what is not final/);
  assert.equal(await hold({}, { vnode: { work: { "10": [p] } } }), undefined, "what is final stays so");
  const audit = { stated: [], tasks: [], accused: [] };
  const parts = [
    { owners: { v: p } },
    ...["stated", "tasks", "accused"].map((part) => ({ audits: { v: { ...audit, [part]: [{ pnode: p }] } } })),
  ];
  for (const one of parts) assert.match((await hold({}, { interval: one })) ?? "", /steps 10 to 20 of session s/);
  assert.equal(await hold({}, { interval: { owners: { v: "q" } } }), undefined);
});

it("a bond stays while its machine is barred or in doubt", async () => {
  const barred = { kind: "doubt", reason: "its result is not what others come to", wallMs: 0 };
  assert.match((await hold({}, { standing: { pnode: p, barred } })) ?? "", /not what others come to/);
});

it("nothing holds a bond in a session that is over, or has been failed for a week", async () => {
  const of = { interval: { owners: { v: p } } };
  for (const status of ["done", "deleted"]) assert.equal(await hold({ status }, of), undefined);
  assert.match((await hold({ status: "suspended" }, of, 30 * day)) ?? "", /not final/);
  const failed = { status: "failed", endedWallMs: day };
  assert.match((await hold(failed, of, 7 * day)) ?? "", /not final/);
  assert.equal(await hold(failed, of, 8 * day), undefined);
});
