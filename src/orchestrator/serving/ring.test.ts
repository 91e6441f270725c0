// A token of a served model goes around its machines: the way from the head back to where tokens come in is part of what placement weighs.

import assert from "node:assert/strict";
import { it } from "node:test";
import { speech } from "../../../simulation/scenarios.ts";
import { replicaIdOf } from "../../core/ids.ts";
import { compileText } from "../../network/compile.ts";
import { generationHead } from "../../network/graphs/generation.ts";
import { servingPlan } from "../sessions/compiled.ts";

it("placement of a served model weighs the way from the head back to the first VNode", () => {
  const plan = compileText(speech.definition);
  const head = generationHead(plan).vnode;
  const takers = plan.vnodes.filter(({ inputs }) => inputs.some(({ source }) => source === "inputs"));
  assert.ok(takers.length > 0 && takers.every(({ id }) => id !== head), "tokens come in elsewhere than the head");
  const { edges } = servingPlan(replicaIdOf("m", "0".repeat(12)), plan);
  for (const { id } of takers) assert.ok(edges.some(({ from, to }) => from === head && to === id));
});
