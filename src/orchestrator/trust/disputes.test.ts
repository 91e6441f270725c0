import { strict as assert } from "node:assert";
import { describe, it } from "node:test";
import { sha256 } from "../../core/hash.ts";
import type { VNodeId } from "../../core/ids.ts";
import type { AuditRecord, Stated } from "../records/checking.ts";
import { isClosed } from "./disputes.ts";
import { found, impossible, pnode, Scene, says, stated } from "./scene.testing.ts";
import { excused } from "./silence.ts";

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

  it("measures nobody by what others were sent, and takes the word of those who come to the same from it", () => {
    const apart = (by: string, word: string): Stated => ({ ...stated(by, word), apart: true });
    const misled = new Scene([stated("owner", "right"), apart("misled", "what follows from a lie")], ["x"]);
    misled.run(() => "right");
    assert.deepEqual([misled.audit.outcome?.kind, misled.audit.accused], ["right", []]);
    const liar = new Scene([stated("liar", "wrong"), apart("owner", "right")], ["x"]);
    liar.run(({ role }) => (role === "repeat" ? "wrong" : "right"));
    assert.deepEqual([liar.audit.outcome?.kind, Object.keys(liar.verdicts)], ["wrong", ["liar"]]);
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

  it("by two strangers sends nobody away because two friends of one mind come to something else: others are asked", () => {
    const friends = new Set(["x", "y"]);
    const scene = new Scene([stated("owner", "right")], ["x", "y", "a", "b", "c", "d"]);
    const alone = new Scene([stated("owner", "right")], ["x", "y"]);
    for (const one of [scene, alone]) {
      one.assurance = "checked";
      one.strangers = 2;
      one.run(({ pnode: name }) => (friends.has(name) ? "wrong" : "right"), 0.9);
    }
    assert.equal(scene.audit.outcome?.kind, "right");
    assert.deepEqual(scene.verdicts, { x: "lie", y: "lie" });
    assert.deepEqual([alone.audit.outcome, alone.audit.accused], [undefined, []], "it waits for a third");
  });

  it("by two strangers does not wait for somebody to outweigh a machine that was found wrong elsewhere since", () => {
    const scene = new Scene([stated("owner", "right")], ["x", "y", "z"]);
    scene.assurance = "checked";
    scene.strangers = 2;
    const saying: Parameters<Scene["run"]>[0] = ({ pnode: name }) => (name === "x" ? "wrong" : "right");
    scene.run(saying);
    assert.equal(scene.audit.outcome, undefined, "x takes one more, and nobody else is here");
    scene.out = (name) => name === "x";
    scene.run(saying);
    assert.deepEqual([(scene.audit as AuditRecord).outcome?.kind, scene.audit.accused], ["right", []]);
  });

  it("takes no approval from whoever was found wrong elsewhere since", () => {
    const friends = new Set(["owner", "x", "y"]);
    const scene = new Scene([stated("owner", "wrong")], ["x", "y", "a", "b", "c"]);
    scene.assurance = "checked";
    scene.strangers = 2;
    scene.run(({ pnode: name }) => (name === "x" ? "wrong" : undefined));
    scene.out = (name) => name === "x";
    scene.run(({ pnode: name }) => (friends.has(name) ? "wrong" : "right"), 0.9);
    assert.deepEqual([scene.audit.outcome?.kind, scene.verdicts], ["wrong", { owner: "lie", y: "lie" }]);
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

  it("does not call a machine a liar that rounds otherwise because whoever measures it is wrong itself", () => {
    const scene = new Scene([stated("owner", "rounded")], ["x", "y", "stale", "z"]);
    for (let round = 0; round < 30; round++) {
      scene.look();
      const tasks = scene.audit.tasks.map((task) => {
        const word = task.pnode === "owner" ? "rounded" : task.pnode === "stale" ? "stale" : "right";
        const distance = word === "stale" ? -1 : 0.007;
        return task.result === undefined ? { ...task, result: says(word), after: sha256(word), distance } : task;
      });
      scene.audit = { ...scene.audit, tasks };
    }
    assert.deepEqual(scene.verdicts, { owner: "class" });
  });

  it("lets no stranger clear whom a trusted machine found wrong", () => {
    for (const assurance of ["sampled", "proven"] as const) {
      const scene = new Scene([stated("liar", "wrong")], ["t", "friend"]);
      scene.assurance = assurance;
      scene.run(({ pnode: name }) => (name === "t" ? "right" : "wrong"), 0.9);
      assert.equal(scene.verdicts["liar"], "lie", assurance);
    }
  });

  it("goes on with somebody else if an auditor is lost or silent", () => {
    const scene = new Scene([stated("owner", "right")], ["gone", "silent", "z"]);
    scene.here = (name) => name !== "gone";
    scene.run(({ pnode: name }) => (name === "z" ? "right" : undefined));
    scene.nowWallMs = 5_000;
    scene.run(({ pnode: name }) => (name === "z" ? "right" : undefined));
    assert.equal(scene.audit.outcome?.kind, "right");
  });

  it("asks everybody else before it asks a machine again that could not, however long that one takes to say so", () => {
    for (const assurance of ["sampled", "checked"] as const) {
      const scene = new Scene([stated("owner", "right")], ["unable", "z"]);
      scene.assurance = assurance;
      for (let minute = 0; minute < 5; minute++) {
        scene.look();
        const gaveUp = { gaveUp: "could not: it has no memory", wasUnable: true } as const;
        const tasks = scene.audit.tasks.map((task) => (task.pnode === "unable" ? { ...task, ...gaveUp } : task));
        scene.audit = { ...scene.audit, tasks };
        scene.nowWallMs += 60_000;
        scene.run(({ pnode: name }) => (name === "z" ? "right" : undefined));
      }
      assert.equal(scene.audit.outcome?.kind, "right", assurance);
    }
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

  it("by owners who all come to the same does not wait for ever either, though the one stranger that did not was found wrong elsewhere since", () => {
    const owners = (...words: string[]) =>
      new Scene(
        words.map((word, at) => stated(`owner${at}`, word)),
        ["x"],
      );
    const [agreeing, atOdds] = [owners("right", "right"), owners("right", "wrong")];
    for (const scene of [agreeing, atOdds]) {
      scene.run(() => "slander");
      scene.out = (name) => name === "x";
      scene.nowWallMs = 50_000;
      scene.run(() => "slander");
      assert.equal(scene.audit.outcome, undefined);
      scene.nowWallMs = 70_000;
      scene.run(() => "slander");
    }
    assert.equal(agreeing.audit.outcome?.kind, "unchecked");
    assert.equal(atOdds.audit.outcome, undefined, "these wait for a third");
  });

  it("by owners who are all that there are is repeated by one of them that is trusted, if they come to the same", () => {
    const by = (owners: readonly string[], words: readonly string[] = []) => {
      const scene = new Scene(
        owners.map((owner, at) => stated(owner, words[at] ?? "right")),
        owners,
      );
      scene.assurance = "proven";
      scene.run(() => "right");
      return scene;
    };
    assert.equal(by(["t1", "t2"]).audit.outcome?.by, "trusted");
    assert.equal(by(["t1"]).audit.outcome, undefined, "nobody checks itself alone");
    assert.equal(by(["x", "y"]).audit.outcome, undefined, "nobody here is trusted");
    assert.equal(by(["t1", "t2"], ["right", "wrong"]).audit.outcome, undefined, "one of these errs");
  });

  it("between a trusted owner and a stranger, where nobody else is left, is repeated by that owner; not where another trusted machine was asked for", () => {
    const left = (owner: string, assurance: "checked" | "proven") => {
      const scene = new Scene([stated(owner, "right")], [owner, "x"]);
      scene.assurance = assurance;
      scene.run(({ pnode: name }) => ((name as string) === "x" ? "wrong" : "right"), 0.9);
      return scene;
    };
    const trusted = left("t", "checked");
    assert.equal(trusted.audit.outcome?.kind, "right");
    assert.deepEqual(Object.keys(trusted.verdicts), ["x"]);
    assert.equal(left("y", "checked").audit.outcome, undefined, "one word against another");
    assert.equal(left("t", "proven").audit.outcome, undefined);
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

  it("of what owners let go of when their session rested is computed again, and nobody loses anything for it", () => {
    for (const assurance of ["sampled", "checked"] as const) {
      const scene = new Scene([stated("owner", "right")], ["x", "y"]);
      scene.audit = { ...scene.audit, ready: false };
      scene.assurance = assurance;
      scene.missing = excused({ withheld: [], forgotten: [{ pnode: pnode("sender"), vnode: "b" as VNodeId }] });
      scene.look();
      assert.equal(scene.audit.outcome?.kind, "lost");
      assert.deepEqual(scene.audit.outcome?.lapses, []);
      assert.match(scene.audit.outcome?.reason ?? "", /rested/);
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
    for (const candidates of [
      ["x", "y", "z"],
      ["x", "y", "z", "v", "w"],
      ["x", "y", "t", "z"],
    ]) {
      const scene = new Scene([stated("owner", "right")], candidates);
      scene.assurance = "checked";
      for (let round = 0; round < 6; round++) scene.hear(() => impossible);
      assert.equal(scene.audit.outcome?.kind, "lost");
      assert.deepEqual(scene.verdicts, { owner: "withholding" });
      assert.ok(scene.audit.tasks.length <= 4, "one more than three is enough");
    }
  });

  it("ends where the only machine that is trusted says again and again that nobody can repeat it", () => {
    const scene = new Scene([stated("owner", "right")], ["x", "y", "t"]);
    scene.assurance = "proven";
    for (let round = 0; round < 30; round++) scene.hear(() => impossible);
    assert.equal(scene.audit.outcome, undefined, "it may be its line");
    scene.nowWallMs = 600_000;
    for (let round = 0; round < 3; round++) scene.hear(() => impossible);
    assert.deepEqual(scene.verdicts, { owner: "withholding" });
  });

  it("asks one more where three say that nobody can, a trusted one if there is any: they answer for it if it can", () => {
    const trusted = new Scene([stated("owner", "right")], ["x", "y", "z", "v", "t"]);
    for (let round = 0; round < 8; round++) trusted.hear((task) => (task.trusted ? found("right") : impossible));
    assert.deepEqual([trusted.audit.outcome?.kind, trusted.audit.tasks.length], ["right", 4]);
    assert.deepEqual(trusted.verdicts, { x: "hardware", y: "hardware", z: "hardware" });
    assert.ok(isClosed(trusted.audit));
    const strangers = new Scene([stated("owner", "right")], ["x", "y", "z", "a", "b", "c"]);
    for (let round = 0; round < 8; round++)
      strangers.hear(({ pnode: name }) => (["x", "y", "z"].includes(name) ? impossible : found("right")));
    assert.deepEqual([strangers.audit.outcome?.kind, strangers.audit.outcome?.by], ["right", "strangers"]);
    assert.deepEqual(strangers.verdicts, { x: "hardware", y: "hardware", z: "hardware" });
  });

  it("weighs who could repeat it against who says that nobody can: a liar's friend who approves of it outvotes nobody", () => {
    const scene = new Scene([stated("liar", "wrong")], ["x", "y", "friend", "z"]);
    for (let round = 0; round < 8; round++)
      scene.hear(({ pnode: name }) => (name === "friend" ? found("wrong") : impossible));
    assert.deepEqual([scene.audit.outcome?.kind, scene.verdicts], ["lost", { liar: "withholding" }]);
    const even = new Scene([stated("owner", "right")], ["x", "y", "z"]);
    for (let round = 0; round < 8; round++)
      even.hear(({ pnode: name }) => (name === "z" ? found("right") : impossible));
    assert.deepEqual([even.audit.outcome?.kind, even.verdicts], ["right", {}], "word against word");
  });

  it("blames nobody for what it cannot find out because a blob is lost", () => {
    const scene = new Scene([stated("owner", "wrong")], ["x", "y", "z"]);
    scene.run(({ role }) => (role === "audit" ? "right" : undefined));
    scene.spoiled = true;
    scene.look();
    assert.deepEqual(scene.verdicts, { owner: "cleared" });
  });
});
