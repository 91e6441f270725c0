import { strict as assert } from "node:assert";
import { describe, it } from "node:test";
import type { AuditTask } from "../records/checking.ts";
import { found, impossible, Scene, stated } from "./scene.testing.ts";

const unable = { gaveUp: "could not: the connection broke", wasUnable: true } as const;

/** A network in which `t` alone is trusted, and has found that the owner comes to something else, who insists on it. */
function insisting(candidates: readonly string[] = ["t"]): Scene {
  const scene = new Scene([stated("owner", "rounded")], candidates);
  scene.hear(() => found("right"));
  for (let round = 0; round < 4; round++)
    scene.hear(({ role }) => (role === "repeat" ? found("rounded") : role === "audit" ? found("right") : undefined));
  assert.equal(scene.audit.outcome?.kind, "wrong");
  assert.ok(scene.audit.tasks.some(({ role, result }) => role === "repeat" && result !== undefined));
  return scene;
}

/** So many seconds, in each of which everybody who is asked answers. */
function pass(scene: Scene, seconds: number, answer: (task: AuditTask) => Partial<AuditTask> | undefined): void {
  for (let second = 0; second < seconds; second++) {
    scene.nowWallMs += 1_000;
    scene.hear(answer);
  }
}

describe("a machine that insists on what nobody else comes to", () => {
  it("is not called a liar while nobody has measured how far it is off, and is only shut out of the class if nobody can", () => {
    const scene = insisting();
    scene.here = (name) => name !== "t";
    pass(scene, 300, () => undefined);
    assert.deepEqual(scene.verdicts, { owner: undefined });
    pass(scene, 400, () => undefined);
    assert.deepEqual(scene.verdicts, { owner: "class" });
  });

  it("is measured by a trusted machine that was away for a moment", () => {
    const scene = insisting();
    scene.here = (name) => name !== "t";
    pass(scene, 30, () => undefined);
    scene.here = () => true;
    pass(scene, 2, ({ role }) => (role === "measure" ? found("right", 0.9) : undefined));
    assert.deepEqual(scene.verdicts, { owner: "lie" });
  });

  it("is measured again where that failed once", () => {
    const scene = insisting();
    let tries = 0;
    pass(scene, 120, ({ role }) => (role !== "measure" ? undefined : ++tries === 1 ? unable : found("right", 0.007)));
    assert.equal(tries, 2);
    assert.deepEqual(scene.verdicts, { owner: "class" });
  });

  it("is no liar where no weight moved, so that nothing says how far it is off: what it sent on may be rounded otherwise", () => {
    const scene = insisting();
    pass(scene, 2, ({ role }) => (role === "measure" ? found("right", -1) : undefined));
    assert.deepEqual(scene.verdicts, { owner: "class" });
  });

  it("is a liar if what it stored is no state of the VNode, as a trusted machine says, or two others", () => {
    const trusted = insisting();
    pass(trusted, 2, () => impossible);
    assert.deepEqual(trusted.verdicts, { owner: "lie" });
    const strangers = insisting(["x", "y", "z", "v"]);
    pass(strangers, 1, () => impossible);
    pass(strangers, 1, () => undefined);
    assert.deepEqual(strangers.verdicts, { owner: undefined }, "one stranger's word is not enough");
    pass(strangers, 4, () => impossible);
    assert.deepEqual(strangers.verdicts, { owner: "lie" });
  });

  it("is a liar if it has not stored what it was to be measured by, and is cleared if the blob store has lost that", () => {
    const slandered = new Scene([stated("owner", "right")], ["slanderer", "y", "z"]);
    slandered.unreadable = true;
    slandered.run(({ pnode, role }) =>
      role === "measure" ? undefined : (pnode as string) === "slanderer" ? "slander" : "right",
    );
    assert.deepEqual(slandered.verdicts, { slanderer: "lie" });
    const lost = insisting();
    pass(lost, 1, () => unable);
    lost.unreadable = true;
    pass(lost, 1, () => undefined);
    assert.deepEqual(lost.verdicts, { owner: "cleared" });
  });

  it("is not taken for silent because its stream broke when it was asked to repeat its work", () => {
    const scene = new Scene([stated("owner", "rounded")], ["t", "x"]);
    scene.patienceMs = 60_000;
    scene.here = (name) => name !== "owner";
    pass(scene, 5, ({ role }) => (role === "repeat" ? undefined : found("right")));
    assert.deepEqual(scene.verdicts, { owner: undefined });
    scene.here = () => true;
    scene.hear(() => undefined);
    scene.here = (name) => name !== "owner";
    pass(scene, 5, () => undefined);
    scene.here = () => true;
    pass(scene, 5, ({ role }) => (role === "measure" ? found("right", 0.007) : found("rounded")));
    assert.deepEqual(scene.verdicts, { owner: "class" });
    const gone = new Scene([stated("owner", "rounded")], ["t", "x"]);
    gone.here = (name) => name !== "owner";
    pass(gone, 60, () => found("right"));
    assert.deepEqual(gone.verdicts, { owner: "silence" });
  });

  it("is not taken for silent because what it hosts left no room to repeat its work: that goes elsewhere while it is in doubt", () => {
    const full = { gaveUp: "could not: it needs 4 MiB of memory; 9 MiB are taken", wasUnable: true } as const;
    const accused = () => {
      const scene = new Scene([stated("owner", "rounded")], ["t", "x"]);
      scene.patienceMs = 60_000;
      pass(scene, 5, ({ role }) => (role === "repeat" ? full : found("right")));
      assert.deepEqual(scene.verdicts, { owner: undefined });
      return scene;
    };
    const emptied = accused();
    pass(emptied, 30, ({ role }) => (role === "measure" ? found("right", 0.007) : found("rounded")));
    assert.deepEqual(emptied.verdicts, { owner: "class" });
    const unwilling = accused();
    pass(unwilling, 70, () => full);
    assert.deepEqual(unwilling.verdicts, { owner: "silence" }, "it gets no longer than one that says nothing");
  });
});
