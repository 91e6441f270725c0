// `npm run golden`: trains all golden scenarios and keeps their roots. What is there already is changed only together
// with the version of the bits: an accident must not become the new truth by the same command.

import { changesOf, goldenNumerics, readGoldenRoots, trainAll, writeGoldenRoots } from "../simulation/golden/roots.ts";
import { bits } from "../src/core/bits.ts";

const known = readGoldenRoots();
const numerics = Object.fromEntries(
  await Promise.all(Object.keys(goldenNumerics).map(async (name) => [name, await trainAll(name)] as const)),
);
const changes = Object.entries(numerics).flatMap(([name, scenarios]) =>
  Object.entries(scenarios).flatMap(([scenario, now]) =>
    changesOf(name, known.numerics[name]?.[scenario], now, scenario),
  ),
);
for (const change of changes) console.log(change);
if (changes.length > 0 && known.bits === bits) {
  console.error(`nothing is written: bump \`bits\` in src/core/bits.ts (it is ${bits}) if this is meant`);
  process.exitCode = 1;
} else {
  writeGoldenRoots({ bits, numerics });
  console.log(`the golden roots of version ${bits} of the bits are written`);
}
