// `node scripts/unit-tests.mjs FILE ...`: files of tests in one process, as `node --test --test-isolation=none` runs them; but that
// follows promises from before anything of ours is loaded.

import "./test-light.mjs";
import { resolve } from "node:path";
import { run } from "node:test";
import { spec } from "node:test/reporters";

const minutesMost = 10;
const files = process.argv.slice(2).map((file) => resolve(file));
const stream = run({ files, isolation: "none", timeout: minutesMost * 60_000 });
let passed = 0;
stream.on("test:pass", () => passed++);
stream.on("test:fail", () => {
  process.exitCode = 1;
});
stream.on("end", () => {
  if (passed === 0) process.exitCode = 1;
});
stream.compose(new spec()).pipe(process.stdout);
