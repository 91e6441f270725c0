// Replicas of a served model that come and go by load: to zero and back, and never away under an answer.

import assert from "node:assert/strict";
import { describe, it } from "node:test";
import type { ModelRecord, ReplicaRecord, SessionRecord } from "../../src/orchestrator/records/sessions.ts";
import { InferenceService } from "../../src/protocol/gen/dcnr/v1/inference_pb.ts";
import { Stage } from "./stage.ts";

async function served(stage: Stage, more: object): Promise<void> {
  for (const name of ["o1", "o2"]) await stage.orchestrator(name);
  for (const name of ["p0", "p1"]) stage.pnode(name, { stepMs: 50 });
  const session = await stage.session();
  await stage.untilRecord<SessionRecord>("it is done", `session/${session}`, ({ status }) => status === "done");
  await stage.call(InferenceService.method.serveModel, { source: session, name: "speaker", ...more });
}

const modelIs = (stage: Stage, what: string, holds: (model: ModelRecord) => boolean, limitMs = 900_000) =>
  stage.untilRecord<ModelRecord>(what, "model/speaker", holds, limitMs);

describe("a model whose replicas come and go by load", () => {
  it("gets more while much is asked of it anywhere, loses them again, and ends none under an answer", async () => {
    const stage = new Stage();
    await served(stage, { leastReplicas: 0, mostReplicas: 3 });
    const { presence } = (stage.orchestrators.get("o2") as NonNullable<ReturnType<typeof stage.orchestrators.get>>)
      .parts;
    const asked = { models: { speaker: { busy: 9, waitMs: 100 } }, replicas: {} as Record<string, number> };
    presence.loads = () => asked;
    const grown = await modelIs(stage, "it has three", ({ replicas }) => replicas.length === 3);
    const last = grown.replicas[2] as string;
    // What is asked ends, but for one answer that the last of them still gives.
    presence.loads = () => ({ models: { speaker: { busy: 1, waitMs: 100 } }, replicas: { [last]: 1 } });
    const shrunk = await modelIs(stage, "one is to go", ({ replicas }) => replicas.length === 2);
    assert.deepEqual(
      shrunk.ending?.map(({ id }) => id),
      [last],
    );
    await stage.pass(60_000);
    assert.equal(
      (await stage.record<ReplicaRecord>(`replica/${last}`))?.status,
      "running",
      "it gives its answer to the end",
    );
    presence.loads = () => ({ models: {}, replicas: {} });
    await modelIs(stage, "and ends then", ({ ending }) => ending?.length === 0);
    await modelIs(stage, "nobody asks, and it goes to zero", ({ replicas }) => replicas.length === 0);
    await stage.until(
      "nothing of it is left",
      () =>
        ![...stage.orchestrators.values()].some(
          ({ parts }) => parts.context.mirror.under("replica/" as never).length > 0,
        ),
      120_000,
    );
    await stage.stop();
  });

  it("comes back when somebody asks, and stays at its least", async () => {
    const stage = new Stage();
    await served(stage, { leastReplicas: 0, mostReplicas: 2 });
    await modelIs(stage, "it has gone to zero", ({ replicas }) => replicas.length === 0);
    const { models } = await stage.call(InferenceService.method.listModels, {});
    assert.deepEqual([models[0]?.leastReplicas, models[0]?.mostReplicas, models[0]?.replicas], [0, 2, 0]);
    // Acting PNodes answer nothing; that it is asked is enough.
    const question = stage.call(InferenceService.method.forward, { model: "speaker", inputs: {} });
    question.catch(() => {});
    await modelIs(stage, "it is back", ({ replicas }) => replicas.length === 1, 10_000);
    await assert.rejects(
      stage.call(InferenceService.method.serveModel, {
        source: "speaker",
        name: "speaker",
        leastReplicas: 3,
        mostReplicas: 2,
      }),
      /at least 3 replicas and at most 2|session or model/,
    );
    await stage.stop();
  });
});
