// Drafts of served models on the control plane: their room is claimed where the head is, whoever hosts the head is told of them, and one that writes
// other tokens is refused.

import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { addressOf } from "../../simulation/boot.ts";
import { hasCode } from "../../src/core/errors.ts";
import { sha256 } from "../../src/core/hash.ts";
import { byteCharacter } from "../../src/data/bpe/alphabet.ts";
import { tokenizerJson } from "../../src/data/bpe/json.ts";
import { compileText } from "../../src/network/compile.ts";
import { wholeServingBytesOf } from "../../src/network/memory.ts";
import type { ReplicaRecord } from "../../src/orchestrator/records/sessions.ts";
import { servingPlan } from "../../src/orchestrator/sessions/compiled.ts";
import { InferenceService } from "../../src/protocol/gen/dcnr/v1/inference_pb.ts";
import { PNodeService } from "../../src/protocol/gen/dcnr/v1/pnode_pb.ts";
import { type ActingPNode, actedState } from "./acting-pnode.ts";
import { Stage } from "./stage.ts";

const definition = (name: string, vocabulary = 256) => `
name: ${name}
nodes:
  - { id: table, type: embedder, config: { vocab_size: ${vocabulary}, dim: 8, seq_len: 32, shared_weight_alias: t } }
  - { id: loss, type: tied_lm_head_ce, config: { tie_weight_alias: t, colocate_group: head } }
edges: [{ from: table, to: loss }]
`;

const bytes = Array.from({ length: 256 }, (_, byte) => byteCharacter(byte));

async function begin(): Promise<{ stage: Stage; nodes: ActingPNode[] }> {
  const stage = new Stage();
  await stage.orchestrator("o1");
  const nodes = Array.from({ length: 2 }, (_, i) => stage.pnode(`p${i}`, { stepMs: 50 }));
  await stage.until("all PNodes attach", () => nodes.every((one) => one.attachedTo !== ""));
  return { stage, nodes };
}

/** A model whose tokens are written so; without them nobody knows how. */
async function register(stage: Stage, name: string, tokens: readonly string[] = [], vocabulary = 256): Promise<void> {
  const { states, vocabularies } = stage.blobs.inner;
  const stored: Record<string, string> = {};
  for (const { id } of compileText(definition(name, vocabulary)).vnodes) {
    const { state, blobs } = await actedState(name, id, 1);
    for (const [hash, content] of blobs) await states.put(hash, content, content.byteLength);
    stored[id] = state;
  }
  const text = tokenizerJson({ tokens: [...tokens], specials: [], merges: [] });
  const file = new TextEncoder().encode(text);
  if (tokens.length > 0) await vocabularies.put(sha256(file), file, file.byteLength);
  const tokenizer = tokens.length > 0 ? sha256(file) : "";
  const model = { name, definition: definition(name, vocabulary), states: stored, tokenizer };
  await stage.call(InferenceService.method.registerModel, model);
}

const serve = (stage: Stage, source: string, draft: string, draftWeights = "") =>
  stage.call(InferenceService.method.serveModel, { source, draft, draftWeights });

describe("the draft of a served model", () => {
  it("is told to PNodes with its definition and states, and its room is claimed with the head's", async () => {
    const { stage, nodes } = await begin();
    await register(stage, "large", bytes);
    await register(stage, "small", bytes);
    const { model } = await serve(stage, "large", "small");
    assert.equal(model?.draft, "small");
    const replica = model?.sessions[0] as string;
    const described = await stage.settled(
      stage.fabric
        .network((nodes[0] as ActingPNode).host)
        .call(addressOf("o1"), PNodeService.method.describeSession, { session: replica }),
    );
    assert.ok(described.work.case === "serving");
    const { draft } = described.work.value;
    assert.equal(draft?.text, definition("small"));
    assert.equal(sha256(draft?.text ?? ""), draft?.definition);
    const record = (await stage.record<ReplicaRecord>(`replica/${replica}`)) as ReplicaRecord;
    assert.deepEqual(Object.keys(draft?.states ?? {}), Object.keys(record.draft?.states ?? {}));
    const plan = compileText(definition("large"));
    const room = (beside?: Parameters<typeof servingPlan>[3]) =>
      servingPlan(record.id, plan, undefined, beside).vnodes.reduce((sum, { memoryBytes }) => sum + memoryBytes, 0);
    const small = compileText(definition("small"));
    assert.equal(room({ plan: small }) - room(), wholeServingBytesOf(small));
    const again = await serve(stage, "large", "");
    assert.notEqual(again.model?.sessions[0], replica, "without it other replicas take its place");
    assert.equal(again.model?.draft, "");
    await stage.stop();
  });

  it("has the same vocabulary: the first token that is written differently is named", async () => {
    const { stage } = await begin();
    await register(stage, "large", bytes);
    await register(stage, "swapped", [
      ...bytes.slice(0, 40),
      bytes[41] as string,
      bytes[40] as string,
      ...bytes.slice(42),
    ]);
    await register(stage, "mute");
    await register(stage, "short", [], 200);
    const refused = (draft: string, sentence: RegExp) =>
      assert.rejects(serve(stage, "large", draft), (error) => {
        assert.ok(hasCode(error, "failed_precondition"), String(error));
        assert.match(String(error), sentence);
        return true;
      });
    await refused("swapped", /swapped cannot be the draft of large: its token 40 is "\)", not "\("/);
    await refused("short", /it knows 200 tokens, not 256/);
    assert.equal((await serve(stage, "large", "mute")).model?.draft, "mute", "as many tokens are all that is known");
    await assert.rejects(serve(stage, "large", "nobody"), (error) => hasCode(error, "not_found"));
    await assert.rejects(serve(stage, "large", "", "4bit"), /without a draft/);
    await stage.stop();
  });
});
