import { strict as assert } from "node:assert";
import { describe, it } from "node:test";
import { sha256 } from "../../core/hash.ts";
import type { PNodeId, VNodeId } from "../../core/ids.ts";
import { resultOf, type Statement } from "../../trust/statement.ts";
import type { AuditRecord, AuditTask, Stated } from "../records/checking.ts";
import { type AuditFacts, advanced, type Candidate, isClosed } from "./disputes.ts";

const pnode = (name: string) => name as PNodeId;

function statementOf(word: string, afterBytes = 100): Statement {
  return {
    ...{ session: "s", vnode: "a", from: 0, to: 2, life: "l", before: "", after: sha256(word), afterBytes },
    ...{ inputs: sha256("in"), inputsBytes: 1, outputs: sha256(`${word} out`), outputsBytes: 1, edges: {} },
    ...{ publicKey: "", signature: "" },
  };
}

const stated = (by: string, word: string, afterBytes?: number): Stated => ({
  ...{ pnode: pnode(by), turn: 0, statement: statementOf(word, afterBytes) },
});

const says = (word: string) => resultOf(statementOf(word));

/** A network in which everybody is asked and answers as `answers` says. */
class Scene {
  audit: AuditRecord;
  nowWallMs = 0;
  spoiled = false;
  missing: AuditFacts["missing"];
  here: (name: string) => boolean = () => true;
  ofClass: (name: string) => boolean = () => true;
  assurance: AuditFacts["assurance"] = "sampled";
  strangers = 1;
  again = false;
  readonly #candidates: readonly Candidate[];

  constructor(statements: readonly Stated[], candidates: readonly string[]) {
    this.audit = { stated: statements, tasks: [], ready: true, accused: [] };
    this.#candidates = candidates.map((name) => ({ pnode: pnode(name), trusted: name.startsWith("t") }));
  }

  look(): void {
    this.audit = advanced(this.audit, {
      ...{ nowWallMs: this.nowWallMs, assurance: this.assurance, openedWallMs: 0, patienceMs: 1_000 },
      ...{ isSpoiled: this.spoiled, missing: this.missing, strangers: this.strangers, again: this.again },
      candidates: (except, trustedOnly) =>
        this.#candidates.filter((one) => !except.has(one.pnode) && (one.trusted || !trustedOnly)),
      isHere: (name) => this.here(name),
      isOfClass: (name) => this.ofClass(name),
    });
  }

  /** Until nothing changes any more. */
  run(answers: (task: AuditTask) => string | undefined, distance = 1): void {
    for (let round = 0; round < 30; round++) {
      this.look();
      const tasks = this.audit.tasks.map((task) => {
        const word = task.result === undefined && task.gaveUp === undefined ? answers(task) : undefined;
        return word === undefined ? task : { ...task, result: says(word), after: sha256(word), distance };
      });
      this.audit = { ...this.audit, tasks };
    }
  }

  get verdicts(): Record<string, string | undefined> {
    return Object.fromEntries(this.audit.accused.map((one) => [one.pnode, one.verdict]));
  }
}

describe("an audit", () => {
  it("by a stranger clears whoever computed rightly", () => {
    const scene = new Scene([stated("owner", "right")], ["x", "y"]);
    scene.run(() => "right");
    assert.equal(scene.audit.outcome?.kind, "right");
    assert.equal(scene.audit.outcome?.by, "strangers");
    assert.deepEqual(
      scene.audit.tasks.map((task) => task.pnode),
      ["x"],
    );
    assert.ok(isClosed(scene.audit));
  });

  it("that is drawn once more asks somebody who is trusted: a liar and the friend who called it right are both found", () => {
    const scene = new Scene([stated("owner", "lie")], ["friend", "t"]);
    scene.again = true;
    scene.run(({ pnode: name }) => (name === "t" ? "right" : "lie"));
    assert.deepEqual([scene.audit.outcome?.kind, scene.audit.outcome?.by], ["wrong", "trusted"]);
    assert.deepEqual(Object.keys(scene.verdicts).sort(), ["friend", "owner"]);
    const nobody = new Scene([stated("owner", "right")], ["x"]);
    nobody.again = true;
    nobody.run(() => "right");
    assert.equal(nobody.audit.outcome?.by, "strangers", "nobody trusted is here");
  });

  it("accuses nobody before a third has repeated it", () => {
    const scene = new Scene([stated("owner", "wrong")], ["x"]);
    scene.run(() => "right");
    assert.equal(scene.audit.outcome, undefined);
    assert.deepEqual(scene.audit.accused, []);
  });

  it("by two strangers asks both at once, and is over only when both came to the same", () => {
    const scene = new Scene([stated("owner", "right")], ["x", "y", "z"]);
    scene.assurance = "checked";
    scene.strangers = 2;
    scene.look();
    scene.look();
    assert.deepEqual(
      scene.audit.tasks.map((task) => task.pnode),
      ["x", "y"],
    );
    scene.run(({ pnode: name }) => (name === "x" ? "right" : undefined));
    assert.equal(scene.audit.outcome, undefined, "one is not enough");
    scene.run(() => "right");
    assert.deepEqual([(scene.audit as AuditRecord).outcome?.kind, scene.audit.tasks.length], ["right", 2]);
  });

  it("by two strangers is wrong only if all who are asked are the liar's friends", () => {
    const friends = new Set(["owner", "x", "z"]);
    for (const [strangers, verdict] of [
      [1, { kind: "right", accused: {} }],
      [2, { kind: "wrong", accused: { owner: "lie", x: "lie", z: "lie" } }],
    ] as const) {
      const scene = new Scene([stated("owner", "wrong")], ["x", "y", "z", "a", "b", "c", "d", "e"]);
      scene.assurance = "checked";
      scene.strangers = strangers;
      scene.run(({ pnode: name }) => (friends.has(name) ? "wrong" : "right"), 0.9);
      assert.deepEqual({ kind: scene.audit.outcome?.kind, accused: scene.verdicts }, verdict);
    }
  });

  it("by two strangers is over when a trusted machine has repeated it", () => {
    const scene = new Scene([stated("owner", "right")], ["t", "x"]);
    scene.assurance = "checked";
    scene.strangers = 2;
    scene.run(({ pnode: name }) => (name === "t" ? "right" : undefined));
    assert.equal(scene.audit.outcome?.by, "trusted");
  });

  it("finds a liar, who insists on his result and is far off", () => {
    const scene = new Scene([stated("owner", "wrong")], ["x", "y", "z"]);
    scene.run(({ pnode: name }) => (name === "owner" ? "wrong" : "right"), 0.9);
    assert.equal(scene.audit.outcome?.kind, "wrong");
    assert.deepEqual(scene.verdicts, { owner: "lie" });
    assert.deepEqual(
      scene.audit.tasks.map(({ role }) => role),
      ["audit", "audit", "repeat", "measure"],
    );
  });

  it("tells a machine that errs from a liar: repeating its work, it gets the right result", () => {
    const scene = new Scene([stated("owner", "wrong")], ["x", "y", "z"]);
    scene.run(() => "right");
    assert.deepEqual(scene.verdicts, { owner: "hardware" });
  });

  it("tells a machine that rounds otherwise from a liar: it is off by next to nothing, or its class is another by now", () => {
    const near = new Scene([stated("owner", "wrong")], ["x", "y", "z"]);
    near.run(({ pnode: name }) => (name === "owner" ? "wrong" : "right"), 0.007);
    assert.deepEqual(near.verdicts, { owner: "class" });
    const other = new Scene([stated("owner", "wrong")], ["x", "y", "z"]);
    other.ofClass = (name) => name !== "owner";
    other.run(() => "right");
    assert.deepEqual(other.verdicts, { owner: "class" });
    const weightless = new Scene([stated("owner", "wrong", 0)], ["x", "y", "z"]);
    weightless.run(({ pnode: name }) => (name === "owner" ? "wrong" : "right"));
    assert.deepEqual(Object.keys(weightless.verdicts), ["owner"]);
  });

  it("that is false is found like any other lie, and its victim is cleared", () => {
    const scene = new Scene([stated("owner", "right")], ["slanderer", "y", "z"]);
    scene.run(({ pnode: name }) => (name === "slanderer" ? "slander" : "right"));
    assert.equal(scene.audit.outcome?.kind, "right");
    assert.deepEqual(scene.verdicts, { slanderer: "lie" });
  });

  it("of a lazy auditor, who makes something else up each time, is a fault of its machine", () => {
    let made = 0;
    const scene = new Scene([stated("owner", "right")], ["lazy", "y", "z"]);
    scene.run(({ pnode: name }) => (name === "lazy" ? `made up ${++made}` : "right"));
    assert.deepEqual(scene.verdicts, { lazy: "hardware" });
  });

  it("whose referees disagree blames nobody: the class is broken", () => {
    const scene = new Scene([stated("owner", "wrong")], ["x", "y", "z"]);
    scene.run(({ pnode: name }) => (name === "owner" || name === "z" ? "wrong" : "right"));
    assert.deepEqual(scene.verdicts, { owner: "cleared" });
  });

  it("goes on with somebody else if an auditor is lost or silent", () => {
    const scene = new Scene([stated("owner", "right")], ["gone", "silent", "z"]);
    scene.here = (name) => name !== "gone";
    scene.run(({ pnode: name }) => (name === "z" ? "right" : undefined));
    scene.nowWallMs = 5_000;
    scene.run(({ pnode: name }) => (name === "z" ? "right" : undefined));
    assert.equal(scene.audit.outcome?.kind, "right");
  });

  it("of a session that is proven ends with a trusted machine alone; one that is sampled does not wait for ever", () => {
    const proven = new Scene([stated("owner", "right")], ["x", "y"]);
    proven.assurance = "proven";
    proven.nowWallMs = 10_000_000;
    proven.run(() => "right");
    assert.equal(proven.audit.outcome, undefined);
    const trusted = new Scene([stated("owner", "right")], ["x", "t"]);
    trusted.assurance = "proven";
    trusted.run(() => "right");
    assert.equal(trusted.audit.outcome?.by, "trusted");
    const alone = new Scene([stated("owner", "right")], []);
    alone.nowWallMs = 10_000_000;
    alone.run(() => "right");
    assert.equal(alone.audit.outcome?.kind, "unchecked");
  });

  it("between owners who contradict each other never believes the first", () => {
    const scene = new Scene([stated("liar", "wrong"), stated("honest", "right")], ["x", "y"]);
    scene.run(({ pnode: name }) => (name === "liar" ? "wrong" : "right"));
    assert.equal(scene.audit.outcome?.kind, "wrong");
    assert.deepEqual(scene.verdicts, { liar: "lie" });
  });

  it("holds an owner to what it stated of its edges: right lists under wrong seams are no right result", () => {
    const owner = stated("owner", "right");
    const smuggler = {
      ...owner,
      statement: { ...owner.statement, edges: { "f/a>b": sha256("what was never computed") } },
    };
    const scene = new Scene([smuggler], ["x", "y", "z"]);
    scene.run(() => "right");
    assert.equal(scene.audit.outcome?.kind, "wrong");
    assert.deepEqual(
      scene.audit.accused.map(({ pnode: name }) => name),
      ["owner"],
    );
  });

  it("does not wait for ever for what the blob store has lost: it is computed again where all is checked", () => {
    for (const [assurance, kind] of [
      ["sampled", "unchecked"],
      ["checked", "lost"],
    ] as const) {
      const scene = new Scene([stated("owner", "right")], ["x", "y"]);
      scene.assurance = assurance;
      scene.spoiled = true;
      scene.run(() => undefined);
      assert.equal(scene.audit.outcome?.kind, kind);
    }
  });

  it("blames a sender that withholds what it takes, and nobody for what was lost by starting again", () => {
    const lapse = { pnode: pnode("sender"), vnode: "b" as VNodeId };
    for (const assurance of ["sampled", "checked"] as const) {
      const scene = new Scene([stated("owner", "right")], ["x", "y"]);
      scene.audit = { ...scene.audit, ready: false };
      scene.assurance = assurance;
      scene.look();
      assert.ok(!isClosed(scene.audit), "somebody may still store it");
      scene.missing = { withheld: [], forgotten: [lapse] };
      scene.look();
      assert.equal(scene.audit.outcome?.kind, "lost", "it is computed again, by somebody else");
      assert.deepEqual(scene.audit.outcome?.lapses, [lapse]);
      assert.deepEqual(scene.verdicts, {});
      const { outcome: _, ...again } = scene.audit;
      scene.audit = again;
      scene.missing = { withheld: [{ ...lapse, story: "it has it" }], forgotten: [] };
      scene.look();
      assert.deepEqual(scene.verdicts, { sender: "withholding" });
      assert.ok(isClosed(scene.audit), "nobody has to repeat anything");
    }
  });

  it("of what a sender took with it when it went is given up where intervals are sampled, and computed again elsewhere", () => {
    for (const [assurance, kind] of [
      ["sampled", "unchecked"],
      ["checked", "lost"],
    ] as const) {
      const scene = new Scene([stated("owner", "right")], ["x", "y"]);
      scene.audit = { ...scene.audit, ready: false };
      scene.assurance = assurance;
      scene.missing = { withheld: [], forgotten: [] };
      scene.look();
      assert.equal(scene.audit.outcome?.kind, kind);
    }
  });

  it("ends where nobody can repeat what was listed, and holds it against whoever listed it", () => {
    const scene = new Scene([stated("owner", "right")], ["x", "y", "z"]);
    scene.assurance = "checked";
    for (let round = 0; round < 3; round++) {
      scene.look();
      const tasks = scene.audit.tasks.map((task) => ({
        ...task,
        gaveUp: "could not: no message 5",
        isImpossible: true,
      }));
      scene.audit = { ...scene.audit, tasks };
    }
    scene.look();
    assert.equal(scene.audit.outcome?.kind, "lost");
    assert.deepEqual(scene.verdicts, { owner: "withholding" });
  });

  it("blames nobody for what it cannot find out because a blob is lost", () => {
    const scene = new Scene([stated("owner", "wrong")], ["x", "y", "z"]);
    scene.run(({ role }) => (role === "audit" ? "right" : undefined));
    scene.spoiled = true;
    scene.look();
    assert.deepEqual(scene.verdicts, { owner: "cleared" });
  });
});
