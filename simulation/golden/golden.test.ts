// Any change of bits fails here first. Nothing in these roots is right by itself: they are what sessions that run in the
// world were begun with.

import assert from "node:assert/strict";
import { test } from "node:test";
import { bits } from "../../src/core/bits.ts";
import { baselineOf } from "../baselines.ts";
import { laned, rounds, scenarios } from "../scenarios.ts";
import { changesOf, goldenNumerics, readGoldenRoots, trainAll } from "./roots.ts";
import { goldenScenarios } from "./scenarios.ts";

const golden = readGoldenRoots();
const remedy = "if this is meant, bump `bits` in src/core/bits.ts and run `npm run golden`";

test("the golden roots belong to this version of the bits", () => {
  assert.equal(golden.bits, bits, "run `npm run golden`, since `bits` was bumped");
});

for (const numerics of Object.keys(goldenNumerics))
  test(`training with ${numerics} numerics gives the golden step roots and losses`, async () => {
    const trained = await trainAll(numerics);
    for (const { name, steps } of goldenScenarios) {
      const [known, now] = [golden.numerics[numerics]?.[name], trained[name]];
      assert.ok(known && now, `${name} has no golden roots with ${numerics} numerics: run \`npm run golden\``);
      assert.equal(known.roots.length, steps);
      assert.deepEqual(changesOf(numerics, known, now, name), [], `bits have changed: ${remedy}`);
    }
  });

test("a network of simulated machines comes to the golden roots", async () => {
  const adapted = goldenScenarios.filter(({ name }) => name === "adapted");
  for (const scenario of [...scenarios, ...laned, ...rounds, ...adapted]) {
    const { roots } = await baselineOf(scenario);
    const known = golden.numerics["reference"]?.[scenario.name]?.roots;
    assert.deepEqual([...roots.values()], known, `${scenario.name}: ${remedy}`);
  }
});

test("no two scenarios share a root, so each says something of its own", () => {
  for (const scenarios of Object.values(golden.numerics)) {
    const roots = Object.values(scenarios).flatMap(({ roots }) => roots);
    assert.equal(new Set(roots).size, roots.length);
  }
});
