import assert from "node:assert/strict";
import { describe, it } from "node:test";
import type { PNodeId, VNodeId } from "../../../core/ids.ts";
import type { ToldRound } from "../../../network/rounds.ts";
import { Fleet } from "../../../scheduler/placement/fleet.ts";
import { chain, node, policy, vnode } from "../../../scheduler/placement.testing.ts";
import type { SessionRecord } from "../../records/sessions.ts";
import type { VNodeRecord } from "../../records/vnodes.ts";
import type { ElasticSession } from "../line.ts";
import { classesOf, lanesToMove, misplaced, partsOf, strandedIn } from "./lane-classes.ts";
import { closingNow } from "./round-plan.ts";

const vnodes = ["a", "a#1", "a#2"] as VNodeId[];

/** Three lanes; rounds of three steps and one together begin at step 4. */
function session(line: number, rounds: readonly ToldRound[] = []): ElasticSession {
  const identity = { steps: 40, lanes: 3, microbatches: 3, numerics: "mixed", sync: { every: 3, after: 4 } };
  const record = {
    id: "s",
    vnodes,
    identity,
    policy: { elastic: "on" },
    numericsClass: "avx2",
    line,
    lineBefore: 0,
    rounds,
  };
  return record as unknown as ElasticSession;
}

const round = (classes: Readonly<Record<number, string>>, counted?: readonly number[], number = 0): ToldRound => ({
  round: number,
  lanes: Object.entries(classes).map(([lane, own]) => ({ lane: Number(lane), steps: 3, class: own, samples: [] })),
  ...(counted && { counted }),
});

/** On machines of these classes, by lane. */
function records(...classes: readonly (string | undefined)[]): Map<VNodeId, VNodeRecord> {
  return new Map(
    vnodes.map((id, lane) => {
      const own = classes[lane];
      const members = own === undefined ? [] : [{ pnode: `p${lane}` as PNodeId, class: own }];
      return [id, { vnode: id, members } as unknown as VNodeRecord];
    }),
  );
}

const alive = ({ members }: VNodeRecord) => members;
const known = ["avx2", "neon", "wasm"];
/** A class that has to be is written with a "!". */
const classes = (of: SessionRecord, here: Map<VNodeId, VNodeRecord>) =>
  classesOf(of, here, alive, known)?.map((one) => `${one.class}${one.isBound ? "!" : ""}`);
const wrong = (of: SessionRecord, here: Map<VNodeId, VNodeRecord>) =>
  misplaced(of, here, alive).map((record) => record.vnode);

describe("lanes of a mixed session", () => {
  it("have to be here together, in one class, before the first round", () => {
    assert.equal(partsOf(session(3)), undefined);
    assert.deepEqual(wrong(session(3), records("avx2", "neon", undefined)), ["a#1"]);
  });

  it("keep to the class of their plan while the round is open, and come first then", () => {
    const open = session(5, [round({ 1: "neon", 2: "avx2" })]);
    assert.deepEqual(partsOf(open), [["a#1"], ["a#2"], ["a"]]);
    assert.deepEqual(classes(open, records("wasm", undefined, "wasm")), ["neon!", "avx2!", "wasm"]);
    assert.deepEqual(wrong(open, records("wasm", "neon", "wasm")), ["a#2"], "the first has no part in it");
  });

  it("are bound to it by the states that a closed round still lacks, and no longer", () => {
    const told = [round({ 0: "neon", 1: "neon", 2: "wasm" }, [0, 1])];
    assert.deepEqual(wrong(session(6, told), records("avx2", "neon", "avx2")), ["a"], "the last does not count");
    assert.deepEqual(wrong(session(7, told), records("avx2", "neon", "avx2")), []);
  });

  it("go to where the next plan wants them once a round is closed, if such machines are here", () => {
    const told = [round({ 0: "neon", 1: "neon", 2: "wasm" }, [0, 1]), round({ 0: "wasm", 1: "gone" }, undefined, 1)];
    const wanted = classes(session(7, told), records(undefined, undefined, "wasm"));
    assert.deepEqual(wanted, ["wasm", "undefined", "wasm"]);
  });

  it("let go of what is left of a lane that rests, so that all of it finds a place", () => {
    const pair = ["a", "b", "a#1", "b#1"] as VNodeId[];
    const of = { ...session(5, [round({ 0: "avx2" })]), vnodes: pair };
    const here = (a1: string | undefined, b1: string | undefined) =>
      new Map(
        pair.map((id, at) => {
          const own = ["avx2", "avx2", a1, b1][at];
          const members = own === undefined ? [] : [{ pnode: id as string as PNodeId, class: own }];
          return [id, { vnode: id, members } as unknown as VNodeRecord];
        }),
      );
    assert.deepEqual(wrong(of, here("neon", undefined)), ["a#1"]);
    assert.deepEqual(wrong(of, here("neon", "wasm")), ["a#1", "b#1"]);
    assert.deepEqual(wrong(of, here("neon", "neon")), []);
    const unplanned = { ...of, line: 4, rounds: [] };
    assert.deepEqual(wrong(unplanned, here("neon", "wasm")), ["a#1", "b#1"], "no plan can name a class for it");
    assert.deepEqual(wrong(unplanned, here("neon", "neon")), [], "the one that it names may be another one's");
  });

  it("are evaluated in the end where their last plan says, whole, and elsewhere only where they find no place there", () => {
    const pair = ["a", "b", "a#1", "b#1"] as VNodeId[];
    const told = [round({ 0: "avx2", 1: "neon" }, [0, 1], 8)];
    const at = (line: number, validateEvery = 5): ElasticSession => {
      const of = session(line, told);
      const validation = { validateEvery, validationMicrobatches: 3 };
      return { ...of, vnodes: pair, identity: { ...of.identity, lanes: 2, ...validation } };
    };
    const here = (...own: (string | undefined)[]) =>
      new Map(
        pair.map((id, index) => {
          const members = own[index] === undefined ? [] : [{ pnode: id as string as PNodeId, class: own[index] }];
          return [id, { vnode: id, members } as unknown as VNodeRecord];
        }),
      );
    const gone = here("avx2", "avx2", undefined, "wasm");
    assert.deepEqual(classes(at(39), gone), ["avx2", "neon"]);
    assert.deepEqual(classes(at(39, 0), gone), ["avx2", "wasm"], "nothing is evaluated");
    const torn = here("avx2", "avx2", "neon", "wasm");
    assert.deepEqual(wrong(at(39), torn), ["a#1", "b#1"]);
    assert.deepEqual(wrong(at(39, 0), torn), []);
    assert.deepEqual(wrong(at(39), here("avx2", "avx2", "wasm", "wasm")), [], "it ends there, without evaluating");
  });

  it("of a class that nobody has any more are not waited for", () => {
    assert.deepEqual(strandedIn(round({ 0: "avx2", 1: "gone", 2: "gone" }), known), [1, 2]);
    const waited = { planned: [0, 1, 2], ready: [0], tookMs: 20_000, readyForMs: 20_000 };
    assert.deepEqual([closingNow(waited), closingNow({ ...waited, stranded: 2 })], [undefined, [0]]);
  });

  it("change their class where that makes all faster, half of them at a time at most", () => {
    const plan = chain(
      vnodes.map((id) => vnode(id, { flops: 1e9 })),
      1_000,
      "s",
    );
    const of = (id: string, own: string, gflops = 50) => node(id, { numerics: [{ engine: own, class: own }], gflops });
    const fleet = new Fleet([of("p", "avx2"), of("q", "neon"), of("slow", "wasm", 2)]);
    const current = new Map(vnodes.map((id) => [id, ["p" as PNodeId]]));
    const asked = policy({ engine: "mixed", numericsClass: "avx2", current });
    const here = new Map([0, 1, 2].map((lane) => [lane, "avx2"]));
    assert.deepEqual(lanesToMove(session(7), plan, fleet, asked, here).length, 1);
    const settled = new Map(
      [
        ["a", "p"],
        ["a#1", "q"],
        ["a#2", "q"],
      ].map(([id, at]) => [id as VNodeId, [at as PNodeId]]),
    );
    const spread = new Map([0, 1, 2].map((lane) => [lane, lane === 0 ? "avx2" : "neon"]));
    assert.deepEqual(
      lanesToMove(session(7), plan, fleet, { ...asked, current: settled }, spread),
      [],
      "4 % are not worth it",
    );
  });

  it("changes the lane that is on the faster machine, not another one for which no place is free there", () => {
    const two = ["a", "a#1"] as VNodeId[];
    const plan = chain(
      two.map((id) => vnode(id, { flops: 1e9 })),
      1_000,
      "s",
    );
    const gpu = { engine: "webgpu", class: "gpu" };
    const avx2 = { engine: "native", class: "avx2" };
    const fleet = new Fleet([node("gamer", { numerics: [gpu, avx2] }), node("plain", { numerics: [avx2] })]);
    const here = new Map([0, 1].map((lane) => [lane, "avx2"]));
    for (const [first, second] of [
      ["gamer", "plain"],
      ["plain", "gamer"],
    ]) {
      const current = new Map<VNodeId, PNodeId[]>([
        ["a" as VNodeId, [first as PNodeId]],
        ["a#1" as VNodeId, [second as PNodeId]],
      ]);
      const asked = policy({ engine: "mixed", numericsClass: "avx2", current });
      const of = { ...session(7), vnodes: two };
      const moving = lanesToMove(of, plan, fleet, asked, here);
      assert.deepEqual(moving, [first === "gamer" ? 0 : 1], `lane 0 on ${first}`);
    }
  });
});
