// What lanes send by the plan alone: what the benchmarks print, and what rounds are for.

import assert from "node:assert/strict";
import { test } from "node:test";
import { create } from "@bufbuild/protobuf";
import { trained } from "../../bench/lab.ts";
import { laneTraffic, roundsOverSteps, storedPerStep } from "../../bench/lane-traffic.ts";
import { compileText } from "../../src/network/compile.ts";
import { policyOf } from "../../src/orchestrator/sessions/settings.ts";
import { SessionSettingsSchema } from "../../src/protocol/gen/dcnr/v1/session_pb.ts";

const [lanes, every, after] = [4, 50, 200];

for (const { title, definition } of Object.values(trained))
  test(`${title}: a sample in rounds costs a 150th of what it does where every gradient is added up, or less`, () => {
    const plan = compileText(definition());
    const traffic = laneTraffic(plan, lanes);
    const weights = traffic.stateBytes / 3;
    assert.ok(Math.abs(traffic.stepBytes / (((2 * (lanes - 1)) / lanes) * weights) - 1) < 0.001, "as much as a ring");
    assert.ok(roundsOverSteps(traffic, every) <= 1 / 150);
    const times = { steps: after + 40 * (every + 1), sync: { every, after } };
    const stored = storedPerStep(traffic, {
      ...times,
      ...policyOf(create(SessionSettingsSchema, { lanes, syncEvery: every }), plan),
    });
    assert.ok(stored < traffic.stepBytes / 20, "states are stored so seldom that they do not make up for it");
  });
