// Replicas by load: single decisions, and an hour of requests with checkers and rules taken out.

import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { type ReplicaLoad, type ReplicaRules, replicaRulesDefault, wantedReplicas } from "./replicas.ts";

const load = (more: Partial<ReplicaLoad>): ReplicaLoad => ({
  ...{ least: 0, most: 4, current: 1, ready: 1, busy: 0, waitMs: 0, sinceAskedMs: 0, sinceChangeMs: 1e9, ...more },
});

describe("replicas by load", () => {
  it("grow with what is under way and with waiting, at most to the double, and stay within their bounds", () => {
    assert.equal(wantedReplicas(load({ busy: 4 })), 1);
    assert.equal(wantedReplicas(load({ busy: 5 })), 2);
    assert.equal(wantedReplicas(load({ busy: 40 })), 2, "not more than twice as many at once");
    assert.equal(wantedReplicas(load({ busy: 40, current: 3 })), 4);
    assert.equal(wantedReplicas(load({ busy: 1, waitMs: 20_000 })), 2, "somebody waits long for a first word");
    assert.equal(wantedReplicas(load({ busy: 1, waitMs: 20_000, ready: 0 })), 1, "one is on its way");
    assert.equal(wantedReplicas(load({ busy: 40, sinceChangeMs: 1_000 })), 1, "the last change has not helped yet");
    assert.equal(wantedReplicas(load({ current: 0, least: 2 })), 2);
    assert.equal(wantedReplicas(load({ current: 6 })), 4);
  });

  it("go to zero when nobody asks, and come back when somebody does", () => {
    assert.equal(wantedReplicas(load({ sinceAskedMs: 100_000 })), 1);
    assert.equal(wantedReplicas(load({ sinceAskedMs: 300_000 })), 0);
    assert.equal(wantedReplicas(load({ sinceAskedMs: 300_000, least: 1 })), 1);
    assert.equal(wantedReplicas(load({ current: 0, busy: 1 })), 1);
    assert.equal(wantedReplicas(load({ current: 0 })), 0);
  });

  /** Requests come with the hour; each replica answers `busyEach` at once, and comes half a minute after it is wanted. */
  function hour(rules: ReplicaRules) {
    let [current, ready, changedMs, askedMs, changes, replicaMs, late] = [1, 1, -1e9, 0, 0, 0, 0];
    for (let nowMs = 0; nowMs < 3_600_000; nowMs += 10_000) {
      const minute = nowMs / 60_000;
      const busy = minute > 10 && minute < 30 ? 10 + (Math.floor(minute) % 2) * 6 : minute > 55 ? 2 : 0;
      if (busy > 0) askedMs = nowMs;
      if (nowMs - changedMs >= 30_000) ready = current;
      const waitMs = busy > ready * rules.busyEach ? 8_000 : ready === 0 && busy > 0 ? 8_000 : 200;
      if (waitMs > 5_000) late++;
      const wanted = wantedReplicas(
        {
          least: 0,
          most: 6,
          current,
          ready,
          busy,
          waitMs,
          sinceAskedMs: nowMs - askedMs,
          sinceChangeMs: nowMs - changedMs,
        },
        rules,
      );
      if (wanted !== current) {
        [current, changedMs] = [wanted, nowMs];
        ready = Math.min(ready, current);
        changes++;
      }
      replicaMs += current * 10_000;
    }
    return { changes, replicaMinutes: replicaMs / 60_000, late, current };
  }

  it("follow an hour of requests without flapping; a rule that is taken out shows", () => {
    const usual = hour(replicaRulesDefault);
    assert.ok(usual.late < 40 && usual.changes < 20, JSON.stringify(usual));
    assert.ok(usual.replicaMinutes < 130, "idle replicas go");
    const hasty = hour({ ...replicaRulesDefault, downCoolDownMs: 0, upCoolDownMs: 0 });
    assert.ok(hasty.changes > usual.changes + 5, `without a cool-down ${hasty.changes}, with it ${usual.changes}`);
    const deaf = hour({ ...replicaRulesDefault, waitMsMost: 1e9, busyEach: 1_000 });
    assert.ok(deaf.late > usual.late || deaf.replicaMinutes < 60);
    const never = hour({ ...replicaRulesDefault, idleMs: 1e9 });
    assert.ok(never.replicaMinutes > usual.replicaMinutes, "without an end of idle ones they stay");
  });
});
