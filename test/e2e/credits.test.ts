// Credits with real processes: what PNodes earn for a training, a budget that ends, and files that hold without anybody's word.

import assert from "node:assert/strict";
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import type { SessionSettingsInit } from "../../src/client/calls/sessions.ts";
import { dcnr, finish, prepare, withNetwork } from "./world.ts";

const definition = readFileSync("examples/mlp.yaml", "utf8");
const settings = (network: string): SessionSettingsInit => ({
  network,
  dataset: "mnist",
  steps: 40n,
  batch: 32,
  seed: 7n,
  checkpointEvery: 5,
  spread: 2,
});

test("PNodes are credited for all steps once, budgets end a session until there is more, and exports are verified offline", () =>
  withNetwork(2, async ({ client, directory, ...network }) => {
    const id = await prepare({ client, directory, ...network }, definition, "mnist");
    const calm = await finish(client, settings(id));
    assert.equal(calm.status, "done", calm.reason);
    const earned = async () => (await client.credits.balances()).reduce((sum, one) => sum + one.earned, 0n);
    const { vnodes } = await client.networks.get(id);
    const flopsPerStep = vnodes.map(({ flops }) => BigInt(Math.round(flops * 32 * 3)));
    const whole = flopsPerStep.reduce((sum, flops) => sum + (flops * 40n) / 1_000_000n, 0n);
    assert.ok(whole > 0n);
    while ((await earned()) < whole) await new Promise((resolve) => setTimeout(resolve, 100));
    assert.equal(await earned(), whole);
    const balances = await client.credits.balances();
    assert.equal(balances.length, 2, "both have worked");
    assert.ok(
      balances.every(({ escrow, available }) => escrow === 0n && available > 0n),
      "all vests at the end",
    );

    const { id: poor } = await client.sessions.create({ ...settings(id), seed: 8n, budget: whole / 4n });
    let session = await client.sessions.get(poor);
    for (; session.status !== "suspended" && session.status !== "done"; session = await client.sessions.get(poor))
      await new Promise((resolve) => setTimeout(resolve, 50));
    assert.equal(session.status, "suspended");
    assert.match(session.reason, /its budget of \d+ credits is spent \(\d+\): dcnr session resume/);
    const address = ["--orchestrator", client.address];
    const resumed = await dcnr(["session", "resume", poor, "--budget", String(whole * 2n), ...address]);
    assert.equal(resumed.code, 0, resumed.err);
    while ((await earned()) < 2n * whole) await new Promise((resolve) => setTimeout(resolve, 100));
    assert.equal(await earned(), 2n * whole);

    const board = await dcnr(["credits", "--all", ...address]);
    assert.match(board.out, /OWNER +MACHINES +EARNED/);
    const file = join(directory, "ledger.jsonl");
    assert.equal((await dcnr(["credits", "export", "--out", file, ...address])).code, 0);
    const good = await dcnr(["credits", "verify", file]);
    assert.match(good.out, /holds: \d+ blocks under head \d+ .* signed by the network/);
    assert.equal(good.code, 0);
    const [first] = balances;
    const statement = join(directory, "statement.json");
    await dcnr(["credits", "export", first?.pnode ?? "", "--out", statement, ...address]);
    assert.equal((await dcnr(["credits", "verify", statement])).code, 0);
    const table = await dcnr(["credits", "export", first?.pnode ?? "", "--format", "csv", ...address]);
    assert.match(table.out, /^chain,index,kind,ref,account,credits\n/);
    for (const path of [file, statement]) {
      const text = readFileSync(path, "utf8");
      const forged = text.replace(/"available\/(\w+)":(\d)/, '"available/$1":9$2');
      assert.notEqual(forged, text);
      writeFileSync(path, forged);
      assert.equal((await dcnr(["credits", "verify", path])).code, 1);
    }
    assert.match((await dcnr(["credits", "verify", join(directory, "nowhere")])).err, /cannot read/);

    const payout = ["credits", "payout", first?.pnode ?? "", "1", "--id", "invoice-1", ...address];
    for (const _ of [1, 2]) assert.equal((await dcnr(payout)).code, 0);
    assert.equal(
      (await client.credits.balances(first?.pnode))[0]?.outside,
      1n,
      "the same payment again changes nothing",
    );
    await client.credits.setBudget("ada", 5);
    assert.deepEqual((await client.credits.spending()).budgets[0]?.budget, 5n);
  }));
