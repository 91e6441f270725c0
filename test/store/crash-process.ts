// Writes to an SQLite store and says so after each write, until crash.test.ts kills it.

import { conformanceWorld as world } from "../../src/store/records/conformance.ts";
import { openSqliteStore } from "../../src/store/records/sqlite.ts";

const store = await openSqliteStore({ path: process.argv[2]!, world });
const round = Number(process.argv[3]);
for (let write = 0; ; write++) {
  const keys = [0, 1, 2].map((part) => `round/${round}/${String(write).padStart(6, "0")}/${part}`);
  await Promise.all(keys.map((key) => store.put(key, "v".repeat(3000), 0)));
  process.stdout.write(`${keys.join("\n")}\n`);
}
