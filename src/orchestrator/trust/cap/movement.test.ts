// The bound against optimizers written down naively, fed with gradients that were chosen to move weights as far as they can be moved.

import assert from "node:assert/strict";
import { describe, it } from "node:test";
import type { OptimizerPlan } from "../../../network/plan.ts";
import { moveBoundOf } from "./movement.ts";

const adam = { kind: "adam", beta1: 0.9, beta2: 0.999, epsilon: 1e-8, weightDecay: 0 } as const;
const session = {
  learningRate: { schedule: "cosine", base: 0.01, warmupSteps: 5, finalShare: 0.1 },
  steps: 400,
  clipNorm: 0,
} as const;
const rateAt = (step: number) => (step < 5 ? (0.01 * (step + 1)) / 5 : 0.01);

/** One weight under Adam; gives it after each of `steps` updates, with a rate that is never below the session's. */
function* adamRun(
  optimizer: typeof adam | (Omit<typeof adam, "kind" | "weightDecay"> & { kind: "adamw"; weightDecay: number }),
  start: number,
  gradients: (step: number) => number,
  steps: number,
) {
  let [weight, m, v] = [start, 0, 0];
  for (let step = 0; step < steps; step++) {
    const gradient = gradients(step);
    m = optimizer.beta1 * m + (1 - optimizer.beta1) * gradient;
    v = optimizer.beta2 * v + (1 - optimizer.beta2) * gradient ** 2;
    const corrected = Math.sqrt(v / (1 - optimizer.beta2 ** (step + 1))) + optimizer.epsilon;
    if (optimizer.kind === "adamw") weight *= 1 - rateAt(step) * optimizer.weightDecay;
    weight -= (rateAt(step) * (m / (1 - optimizer.beta1 ** (step + 1)))) / corrected;
    yield { step: step + 1, weight, m, v };
  }
}

/** Constant; once in a while; ever larger, which moves furthest. */
const shapes: readonly ((step: number) => number)[] = [
  () => 1,
  (step) => (step % 97 === 0 ? 1e6 : 0),
  (step) => 1.11 ** Math.max(0, step - 300),
  (step) => (step > 350 ? 10 ** (step - 350) : 1e-12),
  (step) => Math.sin(step * step) * 10 ** (step % 7),
];

describe("how far an optimizer can move a weight", () => {
  it("bounds Adam under every gradient, and not by much more than what the worst does", () => {
    const constant = { ...session, learningRate: { ...session.learningRate, schedule: "constant" as const } };
    let closest = 0;
    for (const gradients of shapes) {
      const states = [{ step: 0, weight: 0.3, m: 0, v: 0 }, ...adamRun(adam, 0.3, gradients, 400)];
      for (let from = 0; from < 400; from += 20) {
        const [a, b] = [states[from], states[from + 20]] as [(typeof states)[0], (typeof states)[0]];
        const bound = moveBoundOf(adam, constant, from, from + 20);
        assert.ok(bound?.moment);
        assert.ok(Math.abs(b.weight - a.weight) <= bound.fixed + bound.share * Math.abs(a.weight));
        assert.ok(Math.abs(b.m) <= bound.moment * Math.sqrt(b.v));
        closest = Math.max(closest, Math.abs(b.weight - a.weight) / bound.fixed);
      }
    }
    assert.ok(closest > 0.3 && closest <= 1, `the worst came to ${closest} of the bound`);
  });

  it("grows with AdamW's decay, which moves large weights further", () => {
    const decaying = { ...adam, kind: "adamw", weightDecay: 0.5 } as const;
    const constant = { ...session, learningRate: { ...session.learningRate, schedule: "constant" as const } };
    const end = [...adamRun(decaying, 1_000, () => 1, 20)].at(-1);
    const bound = moveBoundOf(decaying, constant, 0, 20);
    const moved = Math.abs((end?.weight ?? 0) - 1_000);
    assert.ok(bound && moved <= bound.fixed + bound.share * 1_000);
    assert.ok(moved > bound.fixed, "what does not decay is bounded more tightly");
  });

  it("is the clipped norm for SGD, and nothing at all without clipping or with decay", () => {
    const sgd: OptimizerPlan = { kind: "sgd", momentum: 0.9, weightDecay: 0 };
    assert.equal(moveBoundOf(sgd, session, 0, 20), undefined);
    assert.equal(moveBoundOf({ ...sgd, weightDecay: 0.1 }, { ...session, clipNorm: 1 }, 0, 20), undefined);
    assert.equal(moveBoundOf({ ...adam, beta1: 0.9999 }, session, 0, 20), undefined);
    let [weight, velocity] = [0, 0];
    for (let step = 0; step < 20; step++) {
      velocity = 0.9 * velocity + 1;
      weight += rateAt(step) * velocity;
    }
    const bound = moveBoundOf(sgd, { ...session, clipNorm: 1 }, 0, 20);
    assert.ok(bound?.velocity && weight <= bound.fixed && velocity <= bound.velocity);
  });
});
