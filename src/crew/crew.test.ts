import assert from "node:assert/strict";
import { test } from "node:test";
import { sha256 } from "../core/hash.ts";
import type { SessionId, Sha256, VNodeId } from "../core/ids.ts";
import { keyIdOf } from "../core/keys.ts";
import { type Charter, charterLifetimeMs, readCharter, signCharter } from "./charter.ts";
import {
  type CrewNews,
  type CrewRules,
  type CrewState,
  chartered,
  crewRules,
  heardNews,
  look,
  openCrew,
  stateAtLine,
  toldTenures,
  withLine,
} from "./crew.ts";
import { disputed, type HeldState, type Holdings, heldLine, heldState, heldTimes, withHolder } from "./holdings.ts";
import { afterStandstill, withSightings } from "./sightings.ts";
import { successorsOf } from "./successors.ts";
import { hashOfTenures, isHigher, type Tenure, takenOver, withTenures } from "./tenures.ts";

const [a, b] = ["a", "b"] as VNodeId[] as [VNodeId, VNodeId];
const state = (text: string) => sha256(text);
const owner = (pnode: string, incarnation = "1") => ({ pnode, incarnation });
const granted = (vnode: VNodeId, pnode: string, epoch = 1): Tenure => ({
  vnode,
  epoch,
  count: 0,
  owners: [owner(pnode)],
});

const charter: Charter = {
  session: "s-1" as SessionId,
  revision: 1n,
  issuedWallMs: 0,
  expiresWallMs: charterLifetimeMs,
  numericsClass: "reference",
  crew: new Map(["p1", "p2", "p3", "p4"].map((pnode) => [pnode, { routes: `${pnode}:1`, hosts: pnode !== "p4" }])),
  vnodes: [
    { vnode: a, tenure: granted(a, "p1"), state: "" },
    { vnode: b, tenure: granted(b, "p2"), state: "" },
  ],
  line: 0,
  turn: 0,
  keepers: 2,
};

const timings = { aloneMs: 6_000, silentMs: 1_600, staggerMs: 150 };
const news: CrewNews = { line: 0, turn: 0, holders: [], tenures: [], sightings: [], orchestratorAgeMs: -1 };

function lookAt(crew: CrewState, nowMs: number, rules: CrewRules = crewRules, wallMs = 0) {
  return look(crew, { nowMs, wallMs, timings, rules, isTaken: () => false, hasRoom: () => true });
}

/** p3 hears that everybody but `silent` is there. */
function hearing(crew: CrewState, nowMs: number, silent: string): CrewState {
  const sightings = ["p1", "p2", "p4"]
    .filter((pnode) => pnode !== silent)
    .map((pnode) => ({ pnode, incarnation: "1", ageMs: 0, routes: "" }));
  return heardNews(crew, "p1", { ...news, sightings }, nowMs, { rules: crewRules, timings });
}

test("of two words about a VNode all prefer the same one", () => {
  const first = granted(a, "p1");
  const taken = takenOver(first, owner("p3"));
  const rival = takenOver(first, owner("p2"));
  const again = takenOver(taken, owner("p2"));
  const later = granted(a, "p1", 2);
  const all = [first, taken, rival, again, later];
  const order = [first, taken, rival, again, later];
  for (const one of all)
    for (const other of all)
      if (one !== other) assert.equal(isHigher(one, other), order.indexOf(one) > order.indexOf(other));
  for (const told of [all, [...all].reverse()]) assert.equal(withTenures(new Map(), told).get(a), later);
});

test("a takeover is void once an orchestrator says that nobody owns the VNode under a later epoch", () => {
  const lookTwice = (crew: CrewState, atMs: number) =>
    lookAt(lookAt(hearing(crew, atMs, "p1"), atMs).state, atMs + 400);
  const { state: taken } = lookTwice(openCrew(charter, owner("p3"), 0), 10_000);
  assert.deepEqual(taken.tenures.get(a), takenOver(granted(a, "p1"), owner("p3")));

  const vacant: Tenure = { vnode: a, epoch: 2, count: 0, owners: [] };
  const told = toldTenures(taken, [vacant, { ...vacant, vnode: "elsewhere" as VNodeId }]);
  assert.deepEqual(told.tenures, withTenures(taken.tenures, [vacant]));
  assert.equal(toldTenures(told, [granted(a, "p1")]).tenures.get(a), vacant, "an older word is no news");

  const { takeovers } = lookTwice(told, 30_000);
  assert.deepEqual(
    takeovers,
    [takenOver(vacant, owner("p3"))],
    "without orchestrators it is taken over anew, above it",
  );
});

test("a line needs every VNode's state at one step, held often enough by those who count", () => {
  const held = (vnode: VNodeId, step: number): HeldState => ({
    vnode,
    step,
    state: state(`${vnode}${step}`),
    trail: "",
  });
  let holdings: Holdings = new Map();
  holdings = withHolder(holdings, "p1", { sequence: 1, states: [held(a, 4), held(b, 4), held(a, 8)] });
  holdings = withHolder(holdings, "p2", { sequence: 1, states: [held(a, 4), held(b, 4), held(b, 8)] });
  holdings = withHolder(holdings, "p3", { sequence: 1, states: [held(a, 8), held(b, 8)] });
  const wish = { vnodes: [a, b], needed: 2, above: 0 };
  assert.equal(heldLine(holdings, { ...wish, counts: () => true }), 8);
  assert.equal(heldLine(holdings, { ...wish, counts: (holder) => holder !== "p3" }), 4);
  assert.equal(heldLine(holdings, { ...wish, counts: (holder) => holder === "p1" }), undefined);
  assert.equal(heldLine(holdings, { ...wish, counts: () => true, above: 8 }), undefined);
});

test("a line counts on nobody of whom nothing was heard: it would be lost with them", () => {
  const states = [a, b].map((vnode): HeldState => ({ vnode, step: 4, state: state(`${vnode}4`), trail: "" }));
  const holders = ["p1", "p3"].map((pnode) => ({ pnode, sequence: 1, states }));
  const told = heardNews(openCrew(charter, owner("p3", "9"), 0), "p1", { ...news, holders }, 0, {
    rules: crewRules,
    timings,
  });
  const crew = { ...told, holdings: withHolder(told.holdings, "p3", { sequence: 1, states }) };
  assert.equal(lookAt(hearing(crew, 9_000, "p2"), 9_000).state.line, 4, "two who are there hold it");
  const without = hearing(crew, 9_000, "p1");
  assert.equal(lookAt(without, 9_000).state.line, 0, "one of the two is gone");
  // Broken, it is noticed here.
  assert.equal(lookAt(without, 9_000, { ...crewRules, counts: () => true }).state.line, 4);
});

test("of each VNode those are counted who hold most of one content at a step", () => {
  const held = (vnode: VNodeId, text: string, step = 4): HeldState => ({ vnode, step, state: state(text), trail: "" });
  let holdings: Holdings = new Map();
  const lists = { p1: [held(a, "x"), held(b, "z")], p2: [held(a, "y"), held(b, "z", 8)], p3: [held(a, "y")] };
  for (const [pnode, states] of Object.entries(lists)) holdings = withHolder(holdings, pnode, { sequence: 1, states });
  for (const counts of [() => true, (holder: string) => holder !== "p3"])
    for (const step of [4, 8]) {
      const times = heldTimes(holdings, step, counts);
      for (const vnode of [a, b])
        assert.equal(times.get(vnode) ?? 0, heldState(holdings, vnode, step, counts)?.holders.length ?? 0);
    }
});

test("who knows the same of who hosts what has the same hash of it, in whatever order it was heard", () => {
  const tenures = [granted(a, "p1"), takenOver(granted(b, "p2"), owner("p3"))];
  const known = withTenures(new Map(), tenures);
  assert.equal(hashOfTenures(withTenures(new Map(), [...tenures].reverse())), hashOfTenures(known));
  assert.equal(withTenures(known, [granted(b, "p2")]), known, "an older word changes nothing");
  assert.notEqual(hashOfTenures(withTenures(known, [granted(a, "p1", 2)])), hashOfTenures(known));
});

test("a holder that lost its disk is not counted on, whoever still tells its old list", () => {
  const states: HeldState[] = [{ vnode: a, step: 4, state: state("x"), trail: "" }];
  const before = withHolder(new Map(), "p1", { sequence: 7, states });
  const after = withHolder(before, "p1", { sequence: 8, states: [] });
  assert.equal(withHolder(after, "p1", { sequence: 7, states }).get("p1")?.states.length, 0);
});

test("two contents of one state are noticed", () => {
  const of = (text: string): HeldState[] => [{ vnode: a, step: 4, state: state(text), trail: "" }];
  const alike = withHolder(withHolder(new Map(), "p1", { sequence: 1, states: of("x") }), "p2", {
    sequence: 1,
    states: of("x"),
  });
  assert.deepEqual(disputed(alike), []);
  const other = withHolder(alike, "p3", { sequence: 1, states: of("y") });
  assert.deepEqual(disputed(other), [{ vnode: a, step: 4 }]);
});

test("successors are the same for everybody, and one that goes changes nothing for the others", () => {
  const all = successorsOf("s", "a", ["p1", "p2", "p3", "p4"]);
  assert.deepEqual(successorsOf("s", "a", ["p4", "p2", "p3", "p1"]), all);
  const [gone, ...rest] = all;
  assert.deepEqual(
    successorsOf(
      "s",
      "a",
      all.filter((pnode) => pnode !== gone),
    ),
    rest,
  );
});

test("whoever stood still takes nobody for silent", () => {
  const seen = withSightings(new Map(), [{ pnode: "p1", incarnation: "1", ageMs: 100, routes: "" }], 1_000);
  assert.equal(seen.get("p1")?.atMs, 900);
  assert.equal(afterStandstill(seen, 5_000, 6_000).get("p1")?.atMs, 5_900);
});

test("nobody takes over while anybody of the crew hears an orchestrator", () => {
  const crew = hearing(openCrew(charter, owner("p3", "9"), 0), 9_000, "p1");
  assert.deepEqual(
    lookAt(heardNews(crew, "p1", { ...news, orchestratorAgeMs: 500 }, 9_000, { rules: crewRules, timings }), 9_000)
      .takeovers,
    [],
  );
});

test("a VNode whose owner is silent is taken over, under its epoch, after those who come first", () => {
  let crew = openCrew(charter, owner("p3", "9"), 0);
  const hosts = successorsOf("s-1", a, ["p2", "p3"]);
  const rank = hosts.indexOf("p3");
  crew = lookAt(hearing(crew, 9_000, "p1"), 9_000).state;
  const dueMs = 9_000 + rank * timings.staggerMs;
  if (rank > 0) assert.deepEqual(lookAt(hearing(crew, dueMs - 1, "p1"), dueMs - 1).takeovers, []);
  const { takeovers, state: after } = lookAt(hearing(crew, dueMs, "p1"), dueMs);
  const [taken] = rank > 0 ? takeovers : lookAt(openCrew(charter, owner("p3", "9"), 0), 9_000).takeovers;
  assert.deepEqual(taken, { vnode: a, epoch: 1, count: 1, owners: [owner("p3", "9")] });
  assert.equal(after.tenures.get(b), charter.vnodes[1]?.tenure);
});

test("a process that came back under the same id has forgotten its VNodes", () => {
  const crew = hearing(openCrew(charter, owner("p3", "9"), 0), 9_000, "");
  const restarted = heardNews(
    crew,
    "p1",
    { ...news, sightings: [{ pnode: "p1", incarnation: "2", ageMs: 0, routes: "" }] },
    9_001,
    { rules: crewRules, timings },
  );
  assert.deepEqual(lookAt(crew, 9_000).state.ownerlessSinceMs.size, 0);
  const looked = lookAt(restarted, 9_001);
  assert.ok(looked.takeovers.length > 0 || looked.state.ownerlessSinceMs.has(a));
});

test("who rounds otherwise keeps states and takes nothing over; nor does anybody after the charter's end", () => {
  const keeper = hearing(openCrew(charter, owner("p4", "9"), 0), 99_000, "p1");
  assert.deepEqual(lookAt(keeper, 99_000).takeovers, []);
  const late = openCrew(charter, owner("p3", "9"), 0);
  assert.deepEqual(lookAt(late, 99_000, crewRules, charterLifetimeMs + 1).takeovers, []);
  assert.ok(lookAt(late, 99_000).takeovers.length > 0 || lookAt(late, 99_000).state.ownerlessSinceMs.size > 0);
});

test("whoever owns a VNode by its charter hosts it, though no orchestrator could tell it so", () => {
  const crew = hearing(openCrew(charter, owner("p2"), 0), 9_900, "");
  const options = { nowMs: 10_000, wallMs: 0, timings, rules: crewRules, hasRoom: () => true };
  assert.deepEqual(look(crew, { ...options, isTaken: () => false }).takeovers, [granted(b, "p2")]);
  assert.deepEqual(look(crew, { ...options, isTaken: (vnode) => vnode === b }).takeovers, []);
});

test("whoever has room for one of two takes over one: what it claimed beyond that would be begun by nobody", () => {
  const alone = openCrew(charter, owner("p3", "9"), 0);
  const options = { wallMs: 0, timings, rules: crewRules, isTaken: () => false };
  const taken = (most: number) => {
    const hasRoom = (vnodes: readonly VNodeId[]) => vnodes.length <= most;
    const noticed = look(alone, { ...options, nowMs: 99_000, hasRoom }).state;
    return look(noticed, { ...options, nowMs: 100_000, hasRoom });
  };
  assert.equal(taken(2).takeovers.length, 2);
  const { state, takeovers } = taken(1);
  assert.equal(takeovers.length, 1);
  const claimed = [...state.tenures.values()].filter(({ owners }) => owners.some(({ pnode }) => pnode === "p3"));
  assert.deepEqual(claimed, takeovers, "nothing is claimed that is not taken over");
});

test("what is over is taken over by nobody: its last states are held", () => {
  const options = { nowMs: 10_000, wallMs: 0, timings, rules: crewRules, isTaken: () => false, hasRoom: () => true };
  const crew = withLine(hearing(openCrew(charter, owner("p3"), 0), 9_900, "p1"), 8, 0);
  const first = look(crew, { ...options, lastStep: 9 }).state;
  const later = { ...options, nowMs: 11_000 };
  assert.deepEqual(
    look(hearing(first, 10_900, "p1"), { ...later, lastStep: 9 }).takeovers.map(({ vnode }) => vnode),
    [a],
  );
  assert.deepEqual(look(hearing(first, 10_900, "p1"), { ...later, lastStep: 8 }).takeovers, []);
});

test("the line follows what others have thrown away, within its turn, and brings the state to start from", () => {
  const held: HeldState = { vnode: a, step: 4, state: state("a4"), trail: "" };
  const holders = [{ pnode: "p1", sequence: 1, states: [held] }];
  const crew = heardNews(openCrew(charter, owner("p3", "9"), 0), "p2", { ...news, line: 4, holders }, 9_000, {
    rules: crewRules,
    timings,
  });
  assert.deepEqual(
    [crew.line, crew.lineBefore, stateAtLine(crew, a), stateAtLine(crew, b)],
    [4, 0, held.state, undefined],
  );
  assert.equal(heardNews(crew, "p2", { ...news, line: 2 }, 9_001, { rules: crewRules, timings }).line, 4);
  // An orchestrator went back to an earlier line: only the new turn counts.
  assert.deepEqual([withLine(crew, 2, 1).line, withLine(withLine(crew, 2, 1), 9, 0).line], [2, 2]);
});

test("while an orchestrator is there nobody of the crew moves the line, and each speaks of what it holds itself alone", () => {
  const crew = openCrew(charter, owner("p3", "9"), 0);
  const states: HeldState[] = [{ vnode: a, step: 4, state: state("a4"), trail: "" }];
  const holders = ["p1", "p2"].map((pnode) => ({ pnode, sequence: 1, states }));
  const told = (nowMs: number, turn: number) =>
    heardNews(crew, "p2", { ...news, line: 4, turn, holders }, nowMs, { rules: crewRules, timings });
  for (const turn of [0, 9]) {
    const { line, turn: counted, holdings } = told(5_999, turn);
    assert.deepEqual([line, counted, [...holdings.keys()]], [0, 0, ["p2"]]);
    assert.deepEqual([told(6_000, turn).line, [...told(6_000, turn).holdings.keys()]], [4, ["p1", "p2"]]);
  }
  // What two say of themselves that they hold, others may have thrown messages away for.
  const both = [a, b].map((vnode): HeldState => ({ vnode, step: 4, state: state(`${vnode}4`), trail: "" }));
  const told4 = (before: CrewState, peer: string, turn = 0) =>
    heardNews(before, peer, { ...news, line: 4, turn, holders: [{ pnode: peer, sequence: 2, states: both }] }, 10, {
      ...{ rules: crewRules, timings },
    });
  assert.equal(told4(crew, "p2").line, 0, "one alone is not enough");
  assert.equal(told4(told4(crew, "p2"), "p1").line, 4);
  assert.equal(told4(told4(crew, "p2"), "p1", 1).line, 0, "orchestrators alone go back");
});

test("nobody speaks for another under a number that it could not count beyond, nor tells of more states than there can be", () => {
  const crew = openCrew(charter, owner("p3", "9"), 0);
  const told = (peer: string, pnode: string, sequence: number, count = 1) => {
    const states = Array.from(
      { length: count },
      (_, step): HeldState => ({ vnode: a, step, state: state("x"), trail: "" }),
    );
    const lie = { ...news, holders: [{ pnode, sequence, states }] };
    return heardNews(crew, peer, lie, 6_000, { rules: crewRules, timings }).holdings.has(pnode);
  };
  assert.deepEqual([told("p2", "p1", 2 ** 52), told("p2", "p1", 2 ** 52 + 1)], [true, false]);
  assert.ok(told("p1", "p1", 2 ** 52 + 1), "of itself each may");
  assert.deepEqual([told("p2", "p2", 1, 512), told("p2", "p2", 1, 513)], [true, false]);
});

test("nobody of the crew takes over while an orchestrator is there, nor under an epoch or a count that was made up", () => {
  const crew = openCrew(charter, owner("p3", "9"), 0);
  const told = (nowMs: number, tenure: Tenure) =>
    heardNews(crew, "p2", { ...news, tenures: [tenure] }, nowMs, { rules: crewRules, timings }).tenures.get(a);
  const taken = takenOver(granted(a, "p1"), owner("p2"));
  const before = charter.vnodes[0]?.tenure;
  assert.deepEqual(told(5_999, taken), before);
  assert.deepEqual(told(6_000, taken), taken);
  for (const lie of [
    { ...taken, epoch: 2 ** 53 - 1 },
    { ...granted(a, "p2", 2 ** 40) },
    { ...taken, count: 2 ** 32 - 1 },
    { ...taken, owners: [owner("somebody")] },
  ])
    assert.deepEqual(told(6_000, lie), before);
});

test("a newer charter names a new crew and lifts what it grants above what was taken over", () => {
  const crew = openCrew(charter, owner("p3", "9"), 0);
  const taken = heardNews(crew, "p2", { ...news, tenures: [takenOver(granted(a, "p1"), owner("p2"))] }, 9_000, {
    rules: crewRules,
    timings,
  });
  assert.equal(taken.tenures.get(a)?.count, 1);
  const vnodes = [
    { vnode: a, tenure: granted(a, "p2", 2), state: "" as const },
    charter.vnodes[1] as Charter["vnodes"][0],
  ];
  const next = chartered(taken, { ...charter, revision: 2n, vnodes }, 9_001);
  assert.deepEqual([next.tenures.get(a)?.epoch, next.tenures.get(a)?.count], [2, 0]);
  assert.equal(chartered(next, { ...charter, revision: 1n }, 7), next);
});

test("a charter is believed only as the network's key signed it", () => {
  const publicKey = new TextEncoder().encode("key");
  const sign = (content: Uint8Array) => new TextEncoder().encode(sha256(publicKey, content));
  const verify = (_key: Uint8Array, content: Uint8Array, signature: Uint8Array) =>
    Buffer.from(sign(content)).equals(signature);
  const identity = { id: keyIdOf(publicKey), publicKey, sign };
  const vnodes = [{ vnode: a, tenure: granted(a, "p1"), state: "ab".repeat(32) as Sha256 }];
  const signed = signCharter({ ...charter, vnodes }, identity);
  assert.deepEqual(readCharter(signed, identity.id, verify), { ...charter, vnodes });
  const changed = signed.charter.slice();
  changed[5] = (changed[5] as number) ^ 1;
  assert.throws(() => readCharter({ ...signed, charter: changed }, identity.id, verify), /signature/);
  assert.throws(() => readCharter(signed, keyIdOf(new Uint8Array(3)), verify), /another key/);
});
