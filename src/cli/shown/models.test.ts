// What is said of weights in few bits is what was measured, and `dcnr serve` waits for it only while it may come.

import assert from "node:assert/strict";
import { test } from "node:test";
import type { Model } from "../../protocol/gen/dcnr/v1/inference_pb.ts";
import { weightLoss, whenLoaded } from "./models.ts";

const model = (status: string, weightError?: number) =>
  ({ name: "demo", status, weights: "4bit", ...(weightError !== undefined && { weightError }) }) as Model;

test("the loss of weights is told where it was measured", () => {
  assert.deepEqual(weightLoss(model("ready", 0.08123)), [
    "demo keeps weights in 4bit: their mean relative error is 8.12 % in the VNode that lost most",
  ]);
  assert.equal(weightLoss(model("ready", 0)).length, 1, "none is lost of what was in such blocks before");
  assert.deepEqual(weightLoss(model("loading")), []);
  assert.deepEqual(weightLoss({ ...model("ready"), weights: "" }), []);
});

test("a model is asked about until it is loaded, waits for room, has failed, or patience ends", async () => {
  const asked = async (answers: readonly Model[], stopAfter = Number.POSITIVE_INFINITY) => {
    const stop = new AbortController();
    let [asks, pauses] = [0, 0];
    const newest = await whenLoaded(model("placing"), {
      ask: async () => [{ ...model("ready"), name: "another" } as Model, answers[asks++] ?? model("loading")],
      pause: async () => void (++pauses >= stopAfter && stop.abort()),
      times: 5,
      signal: stop.signal,
    });
    return { asks, newest };
  };
  const ready = model("ready", 0.1);
  assert.deepEqual(await asked([model("placing"), model("loading"), ready]), { asks: 3, newest: ready });
  assert.equal((await asked([model("waiting"), ready])).asks, 1);
  assert.equal((await asked([model("failed"), ready])).asks, 1);
  assert.equal((await asked([])).asks, 5);
  assert.equal((await asked([], 2)).asks, 2, "whoever was told to stop stops");
});
