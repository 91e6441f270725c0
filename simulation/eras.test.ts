import { strict as assert } from "node:assert";
import { before, describe, test } from "node:test";
import { type EraWorld, eraFaults, eraWorld } from "./eras.ts";
import { type Scenario, scenarios } from "./scenarios.ts";

const scenario = { ...(scenarios[0] as Scenario) };
const seeds = Array.from({ length: 8 }, (_, index) => index + 1);

describe("a session whose last machines of a class are gone for good", () => {
  const worlds: EraWorld[] = [];
  before(async () => {
    for (const seed of seeds) worlds.push(await eraWorld(seed, scenario));
  });

  test("is done in another class, and given its eras its bits depend on nothing else", async () => {
    assert.deepEqual(
      worlds.flatMap(({ violations }) => violations),
      [],
    );
    assert.deepEqual(await eraFaults(scenario, worlds), []);
    assert.ok(
      worlds.some(({ eras }) => eras.length === 1),
      "some world changed its class",
    );
    // Tiny networks may round a class's own last bits away, but not everywhere.
    const ends = new Set(worlds.map(({ roots }) => roots.get(scenario.steps)));
    assert.ok(ends.size > 1, "some world came to other bits than those that did not change");
  });

  test("is found out if it ends with other bits than its eras say", async () => {
    const changed = worlds.find(({ eras }) => eras.length === 1) as EraWorld;
    const roots = new Map([...changed.roots, [scenario.steps, "other bits"]]);
    assert.match((await eraFaults(scenario, [changed, { ...changed, roots }])).join(), /same eras and other roots/);
    const [era] = changed.eras;
    const early = new Map([...changed.roots, [era?.to ?? 0, "other bits"]]);
    assert.match(
      (await eraFaults(scenario, [{ ...changed, roots: early }])).join(),
      /of the first era has another root/,
    );
  });
});
