import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { compileText } from "../../network/compile.ts";
import type { SessionIdentity, SessionPolicy } from "../../network/settings/session.ts";
import { checkRepeatable } from "./repeatable.ts";

/** Megafloats that a sample takes with it from `first` on. */
const chain = (size: number) =>
  compileText(`
name: chain
nodes:
  - { id: first, type: linear, config: { in_dim: 4, out_dim: ${size * 2 ** 20} } }
  - { id: second, type: linear, config: { out_dim: 3 } }
  - { id: loss, type: cost, config: { cost_function: ce_logits, colocate_group: end } }
edges: [{ from: first, to: second }, { from: second, to: loss }]
costs: [{ name: loss, node_id: loss }]
`);

const tied = (group: string) =>
  compileText(`
name: tied
nodes:
  - { id: tokens, type: embedding, config: { vocab_size: 300000, dim: 64, seq_len: 2, shared_weight_alias: table${group} } }
  - { id: middle, type: linear, config: { in_dim: 64, out_dim: 64, seq_len: 2 } }
  - { id: head, type: linear, config: { in_dim: 64, out_dim: 300000, seq_len: 2, bias: false, tie_weight_alias: table${group} } }
  - { id: loss, type: cost, config: { cost_function: ce_logits } }
edges: [{ from: tokens, to: middle }, { from: middle, to: head }, { from: head, to: loss }]
costs: [{ name: loss, node_id: loss }]
`);

type Network = Parameters<typeof checkRepeatable>[0];

function check(
  network: Network,
  settings: Partial<SessionIdentity> = {},
  policy: Partial<SessionPolicy> = { assurance: "sampled" },
): void {
  const identity = { batch: 16, microbatches: 1, validateEvery: 0, validationMicrobatches: 0, ...settings };
  checkRepeatable(network, identity as SessionIdentity, { checkpointEvery: 20, replicas: 1, ...policy });
}

describe("a session that is checked", () => {
  it("has no messages that are too large to be stored for those who check it", () => {
    const refusal =
      /^a message on first.* has 65 MB, and only up to 64 MB can be stored .* choose more microbatches, .* or choose assurance none$/;
    assert.throws(() => check(chain(1)), { code: "invalid_argument", message: refusal });
    check(chain(1), { microbatches: 2 });
    check(chain(1), {}, {});
    check(chain(1), {}, { assurance: "none" });
  });

  it("keeps large weights that VNodes share on one machine, where they are not stored", () => {
    const network = tied("");
    assert.ok(network.edges.some(({ kind }) => kind === "tie"));
    assert.throws(() => check(network), /one machine \(`colocate_group`\)/);
    check(tied(", colocate_group: table, colocate_policy: required"));
  });

  it("has lanes enough that what they add up can be stored", () => {
    const network = chain(8);
    const small = { batch: 64, microbatches: 64 };
    check(network, small);
    assert.throws(() => check(network, { ...small, lanes: 2 }), /first\.reduce:.* choose more lanes/);
    check(network, { ...small, lanes: 4 });
  });

  it("has no more messages from one checkpoint to the next than can be listed", () => {
    const many = { batch: 1_024, microbatches: 1_024 };
    assert.throws(() => check(chain(1 / 2 ** 18), many, { assurance: "checked", checkpointEvery: 1_000 }), {
      code: "invalid_argument",
      message: /messages come to VNode .* choose a smaller checkpoint_every/,
    });
    check(chain(1 / 2 ** 18), many, { assurance: "checked", checkpointEvery: 20 });
    check(chain(1 / 2 ** 18), many, { checkpointEvery: 1_000 });
  });
});
