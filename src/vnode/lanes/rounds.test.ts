import assert from "node:assert/strict";
import { test } from "node:test";
import { openInlineExecutor } from "../../engine/executor.ts";
import { openPortableEngine } from "../../engine/portable/engine.ts";
import { openReferenceEngine } from "../../engine/reference.ts";
import { arrayDevice, arrayDeviceEngine } from "../../engine/webgpu/array-device.testing.ts";
import { isCommon, roundAt } from "../../network/rounds.ts";
import { addedUpIn, evaluationDue } from "../schedule.ts";
import { mlp, type Run, schedule, tied, train } from "../training-run.testing.ts";

const lanes = 3;
const inLanes = { ...schedule, microbatches: 6, validationMicrobatches: 3, checkpointEvery: 1 };
const inline = () => openInlineExecutor(openReferenceEngine());

function weightsAt({ snapshots }: Run, vnode: string, step: number): ReadonlyMap<string, Float32Array> {
  const tensors = [...(snapshots.get(`${vnode}/${step}`)?.tensors ?? [])];
  const own = tensors.filter(([name]) => !name.startsWith("optimizer.") && !name.startsWith("round."));
  return new Map(own.map(([name, { data }]) => [name, data as Float32Array]));
}

test("a round ends with one step from where it began, by the mean of what lanes learned in it", async () => {
  const [after, every] = [2, 4];
  const end = after + every + 1;
  const run = await train(mlp, 1, inline(), { lanes, schedule: { ...inLanes, sync: { after, every } } });
  // The same steps, but nobody puts anything together there.
  const apart = await train(mlp, 1, inline(), { lanes, schedule: { ...inLanes, sync: { after, every: every + 1 } } });
  for (const vnode of ["hidden", "out"]) {
    for (const [name, began] of weightsAt(run, vnode, after)) {
      const ends = Array.from({ length: lanes }, (_, lane) => {
        const id = lane === 0 ? vnode : `${vnode}#${lane}`;
        assert.deepEqual(weightsAt(run, id, end).get(name), weightsAt(run, vnode, end).get(name), "all lanes agree");
        return weightsAt(apart, id, end - 1).get(name) as Float32Array;
      });
      const learned = Array.from(began, (value, i) => ends.reduce((sum, of) => sum + (value - of[i]!) / lanes, 0));
      const largest = Math.max(...began.map((value, i) => Math.max(...ends.map((of) => Math.abs(value - of[i]!)))));
      assert.ok(largest > 0.01, `${name} has moved`);
      const got = weightsAt(run, vnode, end).get(name) as Float32Array;
      for (const [i, by] of learned.entries()) {
        // Rate 1 and momentum 0.8 from rest; each part and the sum are rounded to 127ths of the largest of their block.
        const expected = began[i]! - 1.8 * by;
        const rounding = (1.8 * 2 * 1.5 * largest) / 127;
        assert.ok(
          Math.abs(got[i]! - expected) <= rounding,
          `${name}[${i}]: ${got[i]}, expected ${expected} ± ${rounding}`,
        );
      }
    }
  }
});

for (const [name, text] of Object.entries({ mlp, tied })) {
  const sync = { after: 3, every: 4 };
  test(`${name}: lanes and rounds go on from a checkpoint in the middle of a round as if they had never stopped`, async () => {
    const options = { lanes, schedule: { ...inLanes, sync } };
    const whole = await train(text, 1, inline(), options);
    for (const line of [2, 3, 5, 7]) {
      const rest = await train(text, 2, inline(), { ...options, line, from: whole });
      for (const [key, hash] of rest.hashes) assert.equal(hash, whole.hashes.get(key), `from ${line}: ${key}`);
    }
  });

  test(`${name}: lanes and rounds give the same bits wherever weights and gradients lie`, async () => {
    const options = { lanes, schedule: { ...inLanes, sync } };
    const whole = await train(text, 1, inline(), options);
    const device = arrayDevice();
    const other = await train(text, 1, openInlineExecutor(arrayDeviceEngine(device)), options);
    assert.deepEqual([...other.hashes].sort(), [...whole.hashes].sort());
    const portable = await train(text, 1, openInlineExecutor(openPortableEngine()), options);
    assert.equal(portable.hashes.size, whole.hashes.size);
  });
}

test("rounds follow each other from the end of the steps together to the end of the session", () => {
  const rounds = { steps: 11, sync: { after: 3, every: 4 } };
  const all = Array.from({ length: 12 }, (_, step) => step);
  const no = undefined;
  assert.deepEqual(
    all.map((step) => addedUpIn(rounds, step)),
    ["reduce", "reduce", "reduce", no, no, no, no, "outer", no, no, "outer", no],
  );
  assert.deepEqual(
    all.map((step) => roundAt(rounds, step)?.last),
    [no, no, no, 7, 7, 7, 7, 7, 10, 10, 10, no],
  );
  assert.deepEqual(
    all.filter((step) => isCommon(rounds, step)),
    [0, 1, 2, 3, 8, 11],
  );
});

test("weights are evaluated at the end of the round in which it is due, and nowhere in between", () => {
  const rounds = { ...inLanes, steps: 30, validateEvery: 5, sync: { after: 6, every: 4 } };
  const due = Array.from({ length: 31 }, (_, step) => step).filter((step) => evaluationDue(rounds, step));
  assert.deepEqual(due, [5, 11, 16, 21, 26, 30]);
});
