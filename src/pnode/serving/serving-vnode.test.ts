// A served VNode towards peers that own its neighbours and do not mean well: what it takes, what it keeps, and whom it follows.

import { strict as assert } from "node:assert";
import { describe, it } from "node:test";
import { asideHere } from "../../core/aside.ts";
import type { ReplicaId, VNodeId } from "../../core/ids.ts";
import { elementCount } from "../../core/tensor.ts";
import { virtualWorld } from "../../core/virtual-world.testing.ts";
import { openInlineExecutor } from "../../engine/executor.ts";
import { openReferenceEngine } from "../../engine/reference.ts";
import { AnswerRows } from "./answer-rows.ts";
import type { Pass, PassRow } from "./pass.ts";
import { ServingContext } from "./serving-context.ts";
import { ServingVNode } from "./serving-vnode.ts";

const contextLength = 8;
const definition = `nodes:
  - { id: table, type: embedder, config: { vocab_size: 5, dim: 4, seq_len: ${contextLength}, position_encoding: learned } }
  - { id: gate, type: silu }
  - { id: sum, type: add }
  - { id: logits, type: linear, config: { out_dim: 5 } }
edges: [{ from: table, to: gate }, { from: table, to: sum }, { from: gate, to: sum, to_slot: 1 }, { from: sum, to: logits }]
outputs: [{ name: logits, node_id: logits }]`;

const row = (position: number, tokens = 1): PassRow => ({ request: "r", position, tokens, logits: 1 });
const passOf = (id: number, rows: readonly PassRow[], attempt = 0): Pass => ({
  ...{ id, conductor: "p", epoch: 1, attempt, rows, plain: false, dropped: [] },
});

/** A VNode without weights, between others that are elsewhere: `gate` has one input, `sum` two. */
async function hosted(vnode: "gate" | "sum") {
  const work = { numerics: "reference", states: {}, weights: "", audited: true };
  const context = await ServingContext.of("m@1" as ReplicaId, definition, work, asideHere);
  const { world, until } = virtualWorld();
  const executor = openInlineExecutor(openReferenceEngine());
  const sent: number[] = [];
  const lost: number[] = [];
  const host = new ServingVNode(
    { session: context.replica, vnode: vnode as VNodeId, epoch: 1, since: 1 },
    {
      ...{ world, context: Promise.resolve(context), rows: new AnswerRows() },
      executor: async () => executor,
      stage: () => executor.openStage(),
      inTurn: (load) => load(),
      takeRoom: async () => {},
      openState: () => assert.fail("it has no weights"),
      neighbour: () => undefined,
      send: (_sender, _target, { id }) => void sent.push(id),
      onOutputs: () => assert.fail("it is not the head"),
      onLost: ({ id }) => void lost.push(id),
    },
  );
  await host.loaded;
  const ports = context.vnode(vnode).inputs.map(({ name }) => name);
  const accept = (pass: Pass, input = 0) => {
    const port = ports[input] as string;
    const { dtype, shape } = host.expects(port, pass, 1) ?? assert.fail("it is loaded");
    host.accept(port, pass, { dtype, shape, bytes: new Uint8Array(4 * elementCount(shape)) });
  };
  return { host, port: ports[0] as string, accept, sent, lost, until };
}

describe("a served VNode", () => {
  it("takes no rows beyond the context, before anything is kept of them", async () => {
    const { host, port } = await hosted("gate");
    assert.deepEqual(host.expects(port, passOf(1, [row(6, 2)]), 2)?.shape, [2, 1, 4]);
    for (const [position, tokens] of [
      [7, 2],
      [4_000_000_000, 1],
    ] as const)
      assert.throws(() => host.expects(port, passOf(1, [row(position, tokens)]), tokens), /beyond the model's context/);
  });

  it("follows the newest turn, and the present one where somebody made a later one up who is gone", async () => {
    const { host, accept, sent, lost, until } = await hosted("gate");
    accept(passOf(1, [row(0)]));
    await until(() => sent.length === 1);
    accept(passOf(2, [], 2 ** 32 - 1));
    await until(() => sent.length === 2);
    accept(passOf(3, [row(0)], 1));
    await until(() => true);
    assert.deepEqual(sent, [1, 2], "left of an earlier turn, as far as it can know");
    host.moved();
    accept(passOf(4, [row(0)], 2));
    accept(passOf(5, [row(0)], 1));
    accept(passOf(6, [row(1)], 2));
    await until(() => sent.length === 4);
    assert.deepEqual(sent, [1, 2, 4, 6]);
    assert.deepEqual(lost, []);
  });

  it("keeps its caches where somebody moved and the turn goes on", async () => {
    const { host, accept, sent, lost, until } = await hosted("gate");
    accept(passOf(1, [row(0, 3)]));
    host.moved();
    accept(passOf(2, [row(3)]));
    await until(() => sent.length === 2);
    assert.deepEqual(lost, []);
  });

  it("takes all inputs of a pass for the same rows, or none", async () => {
    const { accept, sent, lost, until } = await hosted("sum");
    accept(passOf(1, [row(0, 2)]), 0);
    accept(passOf(1, [row(0, 2)]), 1);
    await until(() => sent.length === 1);
    accept(passOf(2, [row(2)]), 0);
    accept(passOf(2, [{ ...row(2), request: "q" }]), 1);
    await until(() => lost.length > 0);
    assert.deepEqual([sent, lost], [[1], [2]]);
  });

  it("keeps no more passes waiting than it may, and takes others when those are computed", async () => {
    const { accept, sent, lost, until } = await hosted("gate");
    const most = 1_024;
    for (let id = 1; id <= most + 3; id++) accept(passOf(id, [{ ...row(0), request: String(id) }]));
    await until(() => sent.length === most);
    assert.deepEqual(lost, [most + 1, most + 2, most + 3]);
    accept(passOf(most + 4, [row(0)]));
    await until(() => sent.length === most + 1);
  });

  it("expects no more samples of explicit tensors than come in one message, and positions than are computed at once", async () => {
    const { host, port } = await hosted("gate");
    const plain = { ...passOf(1, []), plain: true };
    assert.deepEqual(host.expects(port, plain, 3)?.shape, [3, contextLength, 4]);
    const { shape: [samples = 0] = [] } = host.expects(port, plain, 4_000_000_000) ?? {};
    assert.equal(samples, 1_024);
  });
});
