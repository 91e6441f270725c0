// `npm run homes [-- [--small] NAME...]`: machines behind home routers of every kind, each case in network namespaces of its own. They train
// the demo's GPT and serve it; with `--small` a tiny network, which is faster.

import { parseArgs } from "node:util";
import { type CaseName, cases } from "./homes/cases.ts";
import { hindrance, runCase } from "./homes/run.ts";

const why = hindrance();
if (why !== undefined) {
  console.log(`nothing was tried: ${why}`);
  process.exit(0);
}
const { values, positionals: wanted } = parseArgs({
  options: { small: { type: "boolean", default: false } },
  allowPositionals: true,
});
const unknown = wanted.filter((name) => !(name in cases));
if (unknown.length > 0) {
  console.error(`there is no case ${unknown.join(", ")}. Cases: ${Object.keys(cases).join("; ")}`);
  process.exit(2);
}
let failed = 0;
for (const name of (wanted.length > 0 ? wanted : Object.keys(cases)) as CaseName[]) {
  const beganMs = performance.now();
  const { trouble, measured } = runCase(name, values.small ? "small" : "gpt");
  console.log(
    `${trouble === "" ? "well  " : "FAILED"}  ${name} (${((performance.now() - beganMs) / 1000).toFixed(0)} s)`,
  );
  if (measured !== "") console.log(`        ${measured}`);
  if (trouble === "") continue;
  failed++;
  console.log(trouble);
}
process.exit(failed === 0 ? 0 : 1);
