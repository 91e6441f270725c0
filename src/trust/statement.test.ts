import { strict as assert } from "node:assert";
import { describe, it } from "node:test";
import { sha256 } from "../core/hash.ts";
import { newIdentity, signingOf, verifyBy } from "../system/keys.ts";
import { edgeRoot, readInputs, readOutputMessages, writeInputs, writeOutputs } from "./lists.ts";
import { type Equation, isSignedBy, signed, statementFromWire, statementToWire } from "./statement.ts";

const equation: Equation = {
  ...{ session: "s", vnode: "a", from: 20, to: 40, life: "one", before: sha256("before"), after: sha256("after") },
  ...{ afterBytes: 7, inputs: sha256("in"), inputsBytes: 1, outputs: sha256("out"), outputsBytes: 2 },
  edges: { "f/a>b": sha256("messages") },
  validation: { step: 20, loss: 0.25 },
};

describe("a statement", () => {
  it("is its signer's, whole: whatever is changed of it, the signature does not fit any more", async () => {
    const signing = signingOf(newIdentity());
    const statement = await signed(equation, signing);
    assert.ok(isSignedBy(statement, signing.id, verifyBy));
    assert.ok(!isSignedBy(statement, newIdentity().id, verifyBy), "somebody else's id");
    const changes: Partial<Equation>[] = [
      ...[{ session: "t" }, { vnode: "b" }, { from: 0 }, { to: 41 }, { life: "two" }, { before: "" }],
      ...[{ after: sha256("x") }, { inputs: sha256("x") }, { outputs: sha256("x") }, { edges: {} }, { afterBytes: 8 }],
      { validation: { step: 20, loss: 0.24 } },
    ];
    for (const change of changes) assert.ok(!isSignedBy({ ...statement, ...change }, signing.id, verifyBy));
  });

  it("arrives as it was sent", async () => {
    const signing = signingOf(newIdentity());
    const statement = await signed(equation, signing);
    assert.deepEqual(statementFromWire(statementToWire(statement), "s", "a"), statement);
    const { validation: _, ...without } = equation;
    const other = await signed(without, signing);
    assert.ok(isSignedBy(statementFromWire(statementToWire(other), "s", "a"), signing.id, verifyBy));
  });

  it("of another form is refused", async () => {
    const wire = statementToWire(await signed(equation, signingOf(newIdentity())));
    assert.throws(() => statementFromWire({ ...wire, after: "x" }, "s", "a"), /not a SHA-256/);
    assert.throws(() => statementFromWire({ ...wire, life: "" }, "s", "a"), /names the life/);
  });
});

describe("lists of messages", () => {
  const interval = { session: "s", vnode: "a", from: 0, to: 2 };

  it("of outputs have the same name for everybody who computed the same, in whichever order", () => {
    const messages = [
      ["1/0/f/a>b", sha256("one")],
      ["0/0/f/a>b", sha256("zero")],
    ] as const;
    const rest = { ...interval, steps: [], measures: [], evaluations: [] };
    const [first, second] = [messages, messages.toReversed()].map((all) => writeOutputs({ ...rest, messages: all }));
    assert.equal(first?.hash, second?.hash);
    assert.deepEqual(readOutputMessages(first?.content as Uint8Array, interval).get("1/0/f/a>b"), sha256("one"));
    assert.equal(edgeRoot(messages), edgeRoot(messages.toReversed()));
    assert.notEqual(edgeRoot(messages), edgeRoot(messages.slice(1)));
  });

  it("of inputs come back with who sent them", () => {
    const message = { key: "0/0/f/x>a", hash: sha256("m"), sender: "p", life: "l", signature: "s" };
    const { content } = writeInputs({ ...interval, messages: [message], keys: { p: "key" } });
    assert.deepEqual(readInputs(content, interval), { ...interval, messages: [message], keys: { p: "key" } });
    assert.throws(() => readInputs(content, { ...interval, to: 3 }), /is not of VNode a/);
    assert.throws(() => readInputs(content.subarray(1), interval), /not JSON/);
  });
});
