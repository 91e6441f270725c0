import { strict as assert } from "node:assert";
import { describe, it } from "node:test";
import type { SessionId, VNodeId } from "../../core/ids.ts";
import type { Assignment } from "../assignment.ts";
import { firstAssigned, type HostEffect, type HostEvent, type HostState, step, type Trouble } from "./host.ts";

const first: Assignment = {
  ...{ session: "s" as SessionId, vnode: "v" as VNodeId, replica: 0 },
  ...{
    epoch: 5,
    since: 5,
    line: 20,
    state: "twenty",
    turn: 0,
    drawn: [],
    rounds: [],
    numericsClass: "",
    commonClass: "",
    rounding: "",
  },
};

const passing: Trouble = { reason: "nobody answers", permanent: false, damagedState: "", noRoom: false };
const permanent: Trouble = { reason: "no such VNode", permanent: true, damagedState: "", noRoom: false };
const damaged: Trouble = { reason: "the blob is lost", permanent: true, damagedState: "twenty", noRoom: false };

/** A host whose lives are words. */
class Scene {
  state: HostState;
  effects: readonly HostEffect<string>[];

  constructor() {
    ({ state: this.state, effects: this.effects } = firstAssigned<string>(first));
  }

  /** The kinds of effects that an event has. */
  post(event: HostEvent<string>): string[] {
    ({ state: this.state, effects: this.effects } = step(this.state, event));
    return this.effects.map(({ kind }) => kind);
  }

  assign(told: Partial<Assignment>): string[] {
    return this.post({ kind: "assigned", told: { ...this.state.assignment, ...told } });
  }

  open(): string[] {
    return this.post({ kind: "opened", life: this.state.life, opened: `life ${this.state.life}` });
  }

  get now(): string {
    return this.state.now.kind;
  }
}

function running(): Scene {
  const scene = new Scene();
  scene.open();
  assert.equal(scene.now, "running");
  return scene;
}

describe("the host of a VNode", () => {
  it("opens a life at the line it is assigned, and begins it at the newest line it has heard of", () => {
    const scene = new Scene();
    assert.deepEqual(scene.effects, [{ kind: "open", life: 1 }]);
    assert.deepEqual(scene.post({ kind: "line", line: 25, turn: 0 }), []);
    assert.deepEqual(scene.open(), ["begin"]);
    assert.deepEqual(scene.effects, [{ kind: "begin", life: 1, opened: "life 1", line: 25 }]);
  });

  it("loads the state of a line that moves on meanwhile, instead of one below which nobody keeps anything", () => {
    const scene = new Scene();
    assert.deepEqual(scene.assign({ line: 40, state: "forty" }), ["cancel", "open"]);
    assert.deepEqual(scene.effects.at(-1), { kind: "open", life: 2 });
    const late = scene.post({ kind: "opened", life: 1, opened: "the state of step 20" });
    assert.deepEqual(late, ["discard"]);
    assert.deepEqual(scene.open(), ["begin"]);
    assert.deepEqual(scene.effects, [{ kind: "begin", life: 2, opened: "life 2", line: 40 }]);
    assert.deepEqual(scene.assign({ line: 60, state: "sixty" }), ["tellLine"], "one that runs goes on");
  });

  it("ignores an assignment of an older epoch, whatever it says", () => {
    const scene = running();
    const before = scene.state;
    assert.deepEqual(scene.assign({ epoch: 4, since: 9, line: 40, state: "forty", turn: 3 }), []);
    assert.deepEqual(scene.state, before);
  });

  it("goes on under a newer epoch if it has hosted without a break, and begins again if it has not", () => {
    const scene = running();
    assert.deepEqual(scene.assign({ epoch: 6, since: 5, line: 30 }), ["tellLine"]);
    assert.equal(scene.state.assignment.epoch, 6);
    assert.deepEqual(scene.assign({ epoch: 8, since: 8 }), ["end", "open"]);
    assert.equal(scene.now, "loading");
  });

  it("goes back when the session does, and not because of a line that is merely older", () => {
    const scene = running();
    assert.deepEqual(scene.assign({ epoch: 6, line: 10, state: "ten" }), ["tellLine"]);
    assert.deepEqual([scene.state.assignment.line, scene.state.assignment.state], [20, "twenty"]);
    assert.deepEqual(scene.assign({ line: 10, state: "ten", turn: 1 }), ["end", "open"]);
    assert.deepEqual([scene.state.assignment.line, scene.state.line], [10, 10]);
    assert.deepEqual(scene.post({ kind: "line", line: 20, turn: 0 }), [], "lines of the turn before are void");
    assert.equal(scene.state.line, 10);
  });

  it("says what made it stumble while it tries again, and nothing of it once it runs or has begun anew", () => {
    const scene = new Scene();
    assert.deepEqual(scene.post({ kind: "stumbled", life: 1, trouble: passing }), []);
    assert.deepEqual(scene.state.now, { kind: "loading", trouble: passing });
    assert.deepEqual(scene.assign({ epoch: 6 }), []);
    assert.deepEqual(scene.state.now, { kind: "loading", trouble: passing });
    assert.deepEqual(scene.assign({ epoch: 8, since: 8 }), ["cancel", "open"]);
    assert.deepEqual(scene.post({ kind: "stumbled", life: 1, trouble: passing }), []);
    assert.deepEqual(scene.state.now, { kind: "loading", trouble: undefined });
    assert.deepEqual(scene.open(), ["begin"]);
    assert.deepEqual(scene.post({ kind: "stumbled", life: 2, trouble: passing }), []);
    assert.equal(scene.now, "running");
  });

  it("reports what will not pass and leaves it alone until something changes", () => {
    const scene = new Scene();
    assert.deepEqual(scene.post({ kind: "notOpened", life: 1, trouble: permanent }), ["report"]);
    assert.equal(scene.now, "failed");
    assert.deepEqual(scene.assign({}), [], "the same again is no news");
    assert.deepEqual(scene.assign({ epoch: 6 }), ["open"]);
  });

  it("reports a damaged checkpoint and goes on trying, since it may be found", () => {
    const scene = new Scene();
    assert.deepEqual(scene.post({ kind: "notOpened", life: 1, trouble: damaged }), ["report", "pause"]);
    assert.deepEqual(scene.state.now, { kind: "loading", trouble: damaged });
    assert.deepEqual(scene.post({ kind: "paused", life: 1 }), ["open"]);
    assert.deepEqual(scene.open(), ["begin"]);
  });

  it("ends a life that failed and says so; one that broke or has no line yet is followed by another", () => {
    const failed = running();
    assert.deepEqual(failed.post({ kind: "lifeFailed", life: 1, reason: "NaN" }), ["end", "report"]);
    assert.equal(failed.now, "failed");
    assert.deepEqual(failed.post({ kind: "paused", life: 1 }), []);

    const broken = running();
    assert.deepEqual(broken.post({ kind: "lifeBroken", life: 1, reason: "a worker died" }), ["end", "pause"]);
    assert.deepEqual(broken.post({ kind: "paused", life: 1 }), ["open"]);
    assert.equal(broken.state.life, 2);

    const outdated = running();
    assert.deepEqual(outdated.post({ kind: "lifeOutdated", life: 1, start: 20 }), ["end", "pause"]);
    assert.deepEqual(outdated.assign({ line: 30, state: "thirty" }), ["cancel", "open"], "the line it waited for");

    const behind = running();
    behind.assign({ line: 30, state: "thirty" });
    assert.deepEqual(behind.post({ kind: "lifeOutdated", life: 1, start: 20 }), ["end", "open"]);
  });

  it("hears nothing from lives that are over, and closes what was opened too late", () => {
    const scene = running();
    scene.assign({ epoch: 8, since: 8 });
    for (const kind of ["lifeFailed", "lifeBroken"] as const)
      assert.deepEqual(scene.post({ kind, life: 1, reason: "late" }), []);
    assert.deepEqual(scene.post({ kind: "fenced", life: 1 }), []);
    assert.deepEqual(scene.post({ kind: "notOpened", life: 1, trouble: permanent }), []);
    assert.deepEqual(scene.post({ kind: "opened", life: 1, opened: "late" }), ["discard"]);
    assert.equal(scene.now, "loading");
  });

  it("leaves when it is fenced, and nothing happens once it has stopped", () => {
    const scene = running();
    assert.deepEqual(scene.post({ kind: "fenced", life: 1 }), ["leave"]);
    assert.deepEqual(scene.post({ kind: "stop" }), ["end"]);
    assert.deepEqual(scene.assign({ epoch: 9, since: 9 }), []);
    assert.deepEqual(scene.post({ kind: "opened", life: 1, opened: "late" }), ["discard"]);
    assert.deepEqual(new Scene().post({ kind: "stop" }), ["cancel"]);
  });
});
