import assert from "node:assert/strict";
import { test } from "node:test";
import type { State } from "./store.ts";
import { named, summaryOf } from "./summary.ts";

const state = (change: Partial<State>): State => ({
  connection: { state: "live" },
  known: true,
  totals: { pnodesOnline: 2, pnodesLost: 0, cores: 4, coresUsed: 0, gpus: 0, memoryBytes: 0, orchestrators: 1 },
  waits: [],
  problems: [],
  pnodes: new Map(),
  hosts: new Map(),
  names: new Map([["pnode-0123456789ab", "maple"]]),
  placements: new Map(),
  vnodes: new Map(),
  sessions: new Map(),
  moves: new Map(),
  events: [],
  loads: [],
  seriesVersion: 0,
  ...change,
});

const wait = { sentence: "maple says nothing (last heard 2.0 s ago); 58 VNodes wait", remedy: "" };

test("problems come before waits, waits before calm", () => {
  const both = summaryOf(state({ problems: ["the store has not answered for 3 s"], waits: [wait] }));
  assert.equal(both.tone, "bad");
  assert.equal(both.text, "The store has not answered for 3 s");
  assert.deepEqual(both.more, [wait.sentence]);
  assert.equal(summaryOf(state({ waits: [wait] })).tone, "wait");
  const helpless = { ...wait, remedy: "lend another machine" };
  assert.match(summaryOf(state({ waits: [helpless] })).text, /58 VNodes wait. What you can do: lend another machine$/);
  assert.deepEqual(summaryOf(state({})), {
    tone: "calm",
    text: "2 PNodes ready. Nothing runs, nothing waits.",
    more: [],
  });
});

test("PNodes are called by name, and nothing else is changed", () => {
  const names = new Map([["pnode-0123456789ab", "<b>maple</b>"]]);
  assert.equal(named("VNode a goes to pnode-0123456789ab: room", { names }), "VNode a goes to <b>maple</b>: room");
  assert.equal(named("session mlp-c03bbe23a347 starts", { names }), "session mlp-c03bbe23a347 starts");
});
