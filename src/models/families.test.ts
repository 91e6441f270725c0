// Every family of the table against Hugging Face Transformers: fixtures/make-families.py wrote what it computes.

import assert from "node:assert/strict";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, describe, it } from "node:test";
import { type Decoder, isGated, plainTraits } from "./decoder.ts";
import { definitionOf } from "./definition.ts";
import { readDecoder } from "./families/read.ts";
import { families } from "./families/table.ts";
import { type Recipe, recipesOf } from "./families/tensors.ts";
import { importHuggingFace } from "./files/huggingface.ts";
import { openWeights } from "./files/safetensors.ts";
import { cook, prefixOf } from "./files/weights.ts";
import { fixtureNames, LoneModel, readFixture, writeFixture } from "./fixtures.testing.ts";

const scratch = mkdtempSync(join(tmpdir(), "families-"));
after(() => rmSync(scratch, { recursive: true, force: true }));

export function worst(ours: ArrayLike<number>, theirs: readonly number[]): number {
  assert.equal(ours.length, theirs.length);
  return theirs.reduce((most, value, i) => Math.max(most, Math.abs(value - ours[i]!)), 0);
}

for (const name of fixtureNames())
  describe(`a model like ${name}`, () => {
    const fixture = readFixture(name);
    const folder = join(scratch, name);
    writeFixture(folder, fixture);

    it("gives Transformers' logits within 1e-5", async () => {
      const model = await LoneModel.open(await importHuggingFace(folder, { context: fixture.ids.length }));
      const difference = worst(await model.logits(fixture.ids), fixture.logits.flat());
      assert.ok(difference < 1e-5, `differs by ${difference}`);
    });

    it("gives Transformers' 64 greedy tokens, from caches", async () => {
      const model = await LoneModel.open(await importHuggingFace(folder, { context: 96 }));
      assert.deepEqual(await model.greedy(fixture.ids, fixture.tokens.length), fixture.tokens);
    });
  });

/** Where the plain one would need other weights. */
const otherThan: Readonly<Record<string, (decoder: Decoder) => unknown>> = {
  expertsPerToken: ({ expertsPerToken }) => (expertsPerToken === 1 ? 2 : 1),
  activation: ({ activation }) =>
    isGated(activation)
      ? activation === "geglu"
        ? "geglu-tanh"
        : "geglu"
      : activation === "gelu"
        ? "gelu-tanh"
        : "gelu",
};

/** The decoder without one of the features in which it differs from a plain one. */
function mutants(decoder: Decoder): [string, Decoder][] {
  const changed: [string, Decoder][] = [];
  for (const [trait, plain] of Object.entries(plainTraits)) {
    if (decoder[trait as keyof Decoder] === plain) continue;
    // OPT's is small and fixed; too small to show.
    if (trait === "epsilon" && decoder.family === "opt") continue;
    // Without its second half it is no mixture but a mistake in the definition.
    if (trait === "experts") continue;
    changed.push([trait, { ...decoder, [trait]: otherThan[trait]?.(decoder) ?? plain }]);
  }
  const layers = (what: string, change: (layer: Decoder["each"][number]) => Partial<Decoder["each"][number]>) => {
    const each = decoder.each.map((layer) => ({ ...layer, ...change(layer) }));
    if (JSON.stringify(each) !== JSON.stringify(decoder.each)) changed.push([what, { ...decoder, each }]);
  };
  const rope = decoder.each.find((layer) => layer.rope)?.rope;
  layers("windows", () => ({ window: undefined }));
  layers("windows of some layers", () => ({ window: decoder.each.find(({ window }) => window)?.window }));
  layers("layers without rotation", (layer) => ({ rope: layer.rope ?? rope }));
  layers("rotations that differ", () => ({ rope }));
  const ropes = (what: string, change: (own: NonNullable<typeof rope>) => NonNullable<typeof rope>) =>
    layers(what, ({ rope: own }) => ({ rope: own && change(own) }));
  ropes("theta", (own) => ({ ...own, theta: own.theta * 2 }));
  ropes("scaling of positions", ({ scaling: _, ...own }) => own);
  ropes("amplitude", ({ amplitude: _, ...own }) => own);
  ropes("rotation of a part", ({ dims: _, scaling: __, ...own }) => own);
  layers("rotation", () => ({ rope: undefined }));
  return changed;
}

/** The recipes without one of the things they do beside copying and turning. */
function mutantRecipes(recipes: ReadonlyMap<string, Recipe>): [string, ReadonlyMap<string, Recipe>][] {
  const without = (what: keyof Recipe): [string, ReadonlyMap<string, Recipe>] => [
    `recipes' ${what}`,
    new Map([...recipes].map(([name, recipe]) => [name, { ...recipe, [what]: undefined }])),
  ];
  return (["order", "lessOne", "skipped"] as const)
    .filter((what) => [...recipes.values()].some((recipe) => recipe[what]))
    .map(without);
}

describe("a row of the table", () => {
  for (const name of fixtureNames())
    it(`for ${name} says nothing in vain: without any feature the logits differ, or the weights are refused`, async () => {
      const { ids, logits, config } = readFixture(name);
      const { decoder, family, context } = readDecoder(config, ids.length);
      const weights = await openWeights(join(scratch, name));
      const recipes = recipesOf(decoder, family, prefixOf(family, weights), context);
      const differenceOf = async (mutant: Decoder, recipesUsed: ReadonlyMap<string, Recipe>) => {
        const load = async (parameter: string) => {
          const recipe = recipesUsed.get(parameter);
          if (recipe === undefined) throw new Unfed(parameter);
          return cook(recipe, weights);
        };
        try {
          const model = await LoneModel.open({ definition: definitionOf(mutant, "mutant", context), load });
          return worst(await model.logits(ids), logits.flat());
        } catch (error) {
          if (error instanceof Unfed || /shape|size|fit|axis/.test(String(error))) return Number.POSITIVE_INFINITY;
          throw error;
        }
      };
      assert.ok((await differenceOf(decoder, recipes)) < 1e-5, "unchanged it is right");
      for (const [feature, mutant] of mutants(decoder))
        assert.ok((await differenceOf(mutant, recipes)) > 1e-4, `nobody would miss ${feature}`);
      for (const [feature, mutant] of mutantRecipes(recipes))
        assert.ok((await differenceOf(decoder, mutant)) > 1e-4, `nobody would miss ${feature}`);
    });
});

class Unfed extends Error {}

it("every family of the table has a fixture", () => {
  const covered = new Set(fixtureNames().map((name) => readFixture(name).config["model_type"]));
  const older = ["llama", "qwen2", "gpt2", "gemma3"];
  for (const { model } of families) assert.ok(covered.has(model) || older.includes(model), model);
});
