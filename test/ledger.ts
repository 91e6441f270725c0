// `npm run ledger -- --operations 1000000 --store sqlite`: the long form of test/ledger/ledger.test.ts. Several orchestrators
// write one ledger, with crashes and lost replies; says what came out, and what contradicts the model.

import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { openStateStore } from "../src/store/open.ts";
import { realWorld } from "../src/system/world.ts";
import { runOperations } from "./ledger/operations.ts";
import { startDynamo } from "./store/servers/dynamodb.ts";
import { startPostgres } from "./store/servers/postgres.ts";

const { values } = parseArgs({
  options: {
    operations: { type: "string", default: "1000000" },
    seed: { type: "string", default: "1" },
    store: { type: "string", default: "sqlite" },
  },
});

async function start(name: string): Promise<{ address: string; stop(): Promise<void> }> {
  if (name === "postgres") {
    const server = await startPostgres();
    return { address: server.url, stop: () => server.stop() };
  }
  if (name === "dynamodb") {
    const server = await startDynamo();
    return { address: `dynamodb:ledger@${server.endpoint}`, stop: () => server.stop() };
  }
  const folder = mkdtempSync(join(tmpdir(), "dcnr-ledger-"));
  return { address: `sqlite:${join(folder, "state.db")}`, stop: async () => rmSync(folder, { recursive: true }) };
}

const world = realWorld({ logFormat: "none" });
const server = await start(values.store);
const began = performance.now();
const cpu = process.cpuUsage();
const outcome = await runOperations({
  operations: Number(values.operations),
  seed: Number(values.seed),
  world,
  open: () => openStateStore(server.address, { world }),
  onProgress: (done) =>
    console.log(
      `${done} operations, ${((performance.now() - began) / 1000).toFixed(0)} s, ${Math.round(process.memoryUsage.rss() / (1 << 20))} MB`,
    ),
});
await server.stop();
const { user, system } = process.cpuUsage(cpu);
const seconds = (performance.now() - began) / 1000;
const { operations, blocks, conflicts, crashes, lost, problems } = outcome;
console.log(
  `${values.store}: ${operations} operations by 3 orchestrators, ${blocks} blocks, ${conflicts} conflicts, ${crashes} crashes, ${lost} lost requests or replies; ${seconds.toFixed(0)} s, ${((user + system) / operations).toFixed(0)} CPU us each`,
);
for (const problem of problems) console.log(`  ${problem}`);
console.log(problems.length === 0 ? "conserved exactly, nothing paid twice" : `${problems.length} problems or more`);
process.exit(problems.length === 0 ? 0 : 1);
