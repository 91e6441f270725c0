// `npm run golden`: trains all golden scenarios, lets a model answer, and keeps roots and answers. What is there already is changed only together
// with its version of the bits: an accident must not become the new truth by the same command.

import { existsSync } from "node:fs";
import {
  answerChanges,
  computeAnswers,
  type GoldenAnswers,
  readGoldenAnswers,
  writeGoldenAnswers,
} from "../simulation/golden/answers.ts";
import { changesOf, goldenNumerics, readGoldenRoots, trainAll, writeGoldenRoots } from "../simulation/golden/roots.ts";
import { answerBits, bits } from "../src/core/bits.ts";

function kept(what: string, changes: readonly string[], isSameVersion: boolean, name: string, write: () => void): void {
  for (const change of changes) console.log(change);
  if (changes.length > 0 && isSameVersion) {
    console.error(`nothing is written of ${what}: bump \`${name}\` in src/core/bits.ts if this is meant`);
    process.exitCode = 1;
    return;
  }
  write();
  console.log(`the golden ${what} are written`);
}

const answersBefore: Partial<GoldenAnswers> = existsSync(new URL("../simulation/golden/answers.json", import.meta.url))
  ? readGoldenAnswers()
  : {};
const answers = await computeAnswers();
kept("answers", answerChanges(answersBefore, answers), answersBefore.answerBits === answerBits, "answerBits", () =>
  writeGoldenAnswers({ answerBits, ...answers }),
);

const known = readGoldenRoots();
const numerics = Object.fromEntries(
  await Promise.all(Object.keys(goldenNumerics).map(async (name) => [name, await trainAll(name)] as const)),
);
const changes = Object.entries(numerics).flatMap(([name, scenarios]) =>
  Object.entries(scenarios).flatMap(([scenario, now]) =>
    changesOf(name, known.numerics[name]?.[scenario], now, scenario),
  ),
);
kept("roots", changes, known.bits === bits, "bits", () => writeGoldenRoots({ bits, numerics }));
