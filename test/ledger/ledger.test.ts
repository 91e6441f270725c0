// The ledger under random operations by several orchestrators with crashes and lost replies, on each store; and the offline
// verifier under a hundred forgeries. The long form is `npm run ledger`.

import assert from "node:assert/strict";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, describe, it } from "node:test";
import { SeededChance } from "../../simulation/world/chance.ts";
import type { Block } from "../../src/orchestrator/ledger/block.ts";
import { statementFile, verifyFile, wholeFile } from "../../src/orchestrator/ledger/files.ts";
import { openMemoryStore } from "../../src/store/memory.ts";
import { openStateStore } from "../../src/store/open.ts";
import { openDynamoStore } from "../../src/store/records/dynamodb.ts";
import { openPostgresStore } from "../../src/store/records/postgres.ts";
import { newIdentity, verifySignature } from "../../src/system/keys.ts";
import { realWorld } from "../../src/system/world.ts";
import { dynamoIsThere, startDynamo } from "../store/servers/dynamodb.ts";
import { startPostgres } from "../store/servers/postgres.ts";
import { type Outcome, runOperations } from "./operations.ts";
import { signedHeadOf } from "./signed.ts";
import { tamperings } from "./tamperings.ts";

const world = realWorld({ logFormat: "none" });
const folder = mkdtempSync(join(tmpdir(), "dcnr-ledger-"));
after(() => rmSync(folder, { recursive: true }));

function check({ problems, conflicts, crashes, lost, blocks }: Outcome): void {
  assert.deepEqual(problems, []);
  assert.ok(conflicts > 0 && crashes > 0 && lost > 0, "the run was too calm to show anything");
  assert.ok(blocks > 0);
}

describe("a ledger that several orchestrators write with crashes and lost replies", () => {
  it("conserves credits and pays nothing twice in memory", async () => {
    const store = openMemoryStore();
    check(await runOperations({ operations: 2_500, seed: 1, world, open: async () => store }));
  });

  it("does so on SQLite", async () => {
    const open = () => openStateStore(`sqlite:${join(folder, "state.db")}`, { world });
    check(await runOperations({ operations: 800, seed: 2, world, open }));
  });

  it("does so on PostgreSQL", async () => {
    const server = await startPostgres();
    try {
      const open = () => openPostgresStore({ url: server.url, world });
      check(await runOperations({ operations: 200, seed: 3, world, open }));
    } finally {
      await server.stop();
    }
  });

  it("does so on DynamoDB", { skip: !dynamoIsThere() }, async () => {
    const server = await startDynamo();
    try {
      const open = () => openDynamoStore({ table: "ledger", endpoint: server.endpoint, world });
      check(await runOperations({ operations: 200, seed: 4, world, open }));
    } finally {
      await server.stop();
    }
  });
});

describe("the offline verifier", async () => {
  const store = openMemoryStore();
  const blocks: Block[] = [];
  const onBlock = (block: Block) => void blocks.push(block);
  await runOperations({ operations: 150, seed: 5, world, open: async () => store, onBlock });
  const identity = newIdentity();
  const head = signedHeadOf(blocks, identity);
  const verdictOf = (changed: readonly Block[]) => verifyFile([...wholeFile(head, changed)], verifySignature);

  it("finds nothing wrong with a ledger as it is, and says whose it is", async () => {
    const { problems, network, credits, blocks: count } = await verdictOf(blocks);
    assert.deepEqual(problems, []);
    assert.equal(network, identity.id);
    assert.equal(count, blocks.length);
    assert.equal(
      [...credits.values()].reduce((sum, amount) => sum + amount, 0),
      0,
    );
  });

  it("finds 100 of 100 forgeries, those with links mended too", async () => {
    const chance = new SeededChance(6, "tamperings");
    for (let round = 0; round < 100; round++) {
      const changed = [...blocks];
      const at = chance.whole(0, changed.length - 1);
      tamperings[round % tamperings.length]?.(changed, at, chance);
      const { problems } = await verdictOf(changed);
      assert.ok(problems.length > 0, `forgery ${round} at block ${at} went unnoticed`);
    }
  });

  it("finds a head that somebody else has signed or changed", async () => {
    const other = signedHeadOf(blocks, newIdentity());
    const forged = { ...head, publicKey: other.publicKey };
    const byOther = await verifyFile([...wholeFile(other, blocks)], verifySignature);
    assert.notEqual(byOther.network, identity.id);
    for (const wrong of [forged, { ...head, number: head.number + 1 }, { ...head, wallMs: head.wallMs + 1 }]) {
      const { problems } = await verifyFile([...wholeFile(wrong, blocks)], verifySignature);
      assert.match(problems.join(), /nobody's key has signed/);
    }
  });

  it("follows each entry of a statement to the signed head, and no entry that was changed", async () => {
    const chains = new Map(Map.groupBy(blocks, ({ chain }) => chain));
    const file = statementFile(head, chains, (name) => name === "available/p3");
    const verdict = await verifyFile([file], verifySignature);
    assert.deepEqual(verdict.problems, []);
    const expected = blocks.reduce((sum, { transfer }) => sum + (transfer.legs["available/p3"] ?? 0), 0);
    assert.equal(verdict.credits.get("available/p3") ?? 0, expected);
    assert.ok(verdict.blocks > 0);
    const forged = file.replace(/"available\/p3":(\d)/, '"available/p3":1$1');
    assert.notEqual(forged, file);
    assert.match((await verifyFile([forged], verifySignature)).problems.join(), /is not in the ledger/);
  });

  it("says of a statement with entries that are none that it is no ledger", async () => {
    const chains = new Map(Map.groupBy(blocks, ({ chain }) => chain));
    const whole = JSON.parse(statementFile(head, chains, (name) => name === "available/p3")) as {
      readonly entries: readonly Record<string, unknown>[];
    };
    const [entry] = whole.entries;
    const spoiled: unknown[] = [null, 7, [], { ...entry, end: null }, { ...entry, end: { chain: 1 } }];
    for (const name of Object.keys(entry ?? {}))
      spoiled.push({ ...entry, [name]: undefined }, { ...entry, [name]: [7] });
    for (const one of spoiled) {
      const file = JSON.stringify({ ...whole, entries: [one] });
      await assert.rejects(verifyFile([file], verifySignature), { code: "data_loss" }, file.slice(0, 300));
    }
  });

  it("says of any other file that it is no ledger", async () => {
    for (const text of [
      "",
      "hello",
      "null",
      "{}",
      '{"format":"dcnr ledger 1"}',
      `${wholeFile(head, []).next().value}\n{`,
    ])
      await assert.rejects(verifyFile(text.split("\n"), verifySignature), { code: "data_loss" });
  });
});
