import assert from "node:assert/strict";
import { test } from "node:test";
import { type ErrorCode, fail } from "../../core/errors.ts";
import { sha256 } from "../../core/hash.ts";
import type { SessionId, VNodeId } from "../../core/ids.ts";
import { Tasks } from "../../core/tasks.ts";
import { silentLog, type World } from "../../core/world.ts";
import type { Charter } from "../../crew/charter.ts";
import { crewRules } from "../../crew/crew.ts";
import { successorsOf } from "../../crew/successors.ts";
import type { CrewNews } from "../../protocol/gen/dcnr/v1/session_peers_pb.ts";
import { type StateManifest, writeStateManifest } from "../../states/manifest.ts";
import type { Assignment } from "../assignment.ts";
import { timingsDefault } from "../options.ts";
import { NoRoom } from "../room.ts";
import type { SessionCrewOptions } from "./crew-cell.ts";
import { KeptStates, memoryKept } from "./kept-states.ts";
import type { CrewPeers, Peer } from "./peers.ts";
import { SessionCrew } from "./session-crew.ts";

const session = "s-1" as SessionId;
const front = "front" as VNodeId;
const heldState = sha256("front at 6");
const keptHere = { vnode: front, step: 6, state: heldState, trail: "" as const };

const charter: Charter = {
  session,
  revision: 1n,
  issuedWallMs: 0,
  expiresWallMs: 1e12,
  numericsClass: "reference",
  crew: new Map(["p1", "p2", "p3"].map((pnode) => [pnode, { routes: `${pnode}:1`, hosts: true }])),
  vnodes: [{ vnode: front, tenure: { vnode: front, epoch: 1, count: 0, owners: [] }, state: "" }],
  line: 0,
  turn: 0,
  keepers: 2,
};

/** A crew at p1, on a clock of the test's, with what it does to its PNode. */
function stage(own: readonly (typeof keptHere)[] = [], others: Partial<SessionCrewOptions> = {}, by = charter) {
  let nowMs = 0;
  const due: { atMs: number; callback: () => void }[] = [];
  const world: World = {
    clock: { wallMs: () => nowMs, monotonicMs: () => nowMs },
    timers: {
      after: (ms, callback) => {
        const timer = { atMs: nowMs + ms, callback };
        due.push(timer);
        return () => void (due.includes(timer) && due.splice(due.indexOf(timer), 1));
      },
    },
    chance: { bytes: (count) => new Uint8Array(count), uniform: () => 0.5 },
    log: silentLog,
  };
  const lines: [number, string | undefined][] = [];
  const at = { orchestratorMs: undefined as number | undefined, startedOver: 0 };
  const never = () => new Promise<never>(() => {});
  const options: SessionCrewOptions = {
    self: { pnode: "p1", incarnation: "1" },
    ...{ world, tasks: new Tasks(silentLog), signal: new AbortController().signal, rules: crewRules },
    timings: { ...timingsDefault, aloneMs: 6_000, silentMs: 1_600, staggerMs: 150, tellMs: 400 },
    kept: { of: () => own, find: () => keptHere, changes: 0, dropBelow: async () => {} } as unknown as KeptStates,
    peers: { tell: never, keep: never, enlist: never } as unknown as CrewPeers,
    routes: () => "p1:1",
    orchestratorHeardMs: () => at.orchestratorMs,
    nobodyListens: () => false,
    fetchStored: never,
    hooks: {
      hosted: () => [{ session, vnode: front, epoch: 1 } as Assignment],
      lastStep: () => 100,
      hasRoom: () => true,
      memoryBytesOf: () => 1,
      host: () => {},
      giveUp: () => {},
      startOver: () => at.startedOver++,
      onLine: (line, _, stateOf) => lines.push([line, stateOf(front)]),
      onTenures: () => {},
    },
    ...others,
  };
  const crew = new SessionCrew(by, { charter: new Uint8Array() } as never, options);
  const pass = (ms: number, each: () => void = () => {}) => {
    for (const endMs = nowMs + ms; nowMs < endMs; ) {
      const next = due.reduce((first, timer) => (timer.atMs < first.atMs ? timer : first));
      due.splice(due.indexOf(next), 1);
      nowMs = next.atMs;
      next.callback();
      each();
    }
  };
  const hears = (peer: string, told: Partial<CrewNews>) =>
    crew.heard(peer, "1", `${peer}:1`, {
      ...{ session, line: 0n, turn: 0n, holders: [], known: [], tenures: [], sightings: [], charterRevision: 1n },
      ...{ orchestratorAgeMs: -1, tenuresHash: "", ...told },
    } as unknown as CrewNews);
  /** All that can be done without time passing. */
  const done = async () => {
    for (let turn = 0; turn < 10; turn++) await new Promise(setImmediate);
  };
  return { crew, lines, at, pass, hears, done, nowMs: () => nowMs };
}

const holding = (pnode: string) => ({ pnode, sequence: 1n, states: [{ ...keptHere, step: 6n }] });

test("who hears of a line before anybody who holds its states is raised when one tells", () => {
  const { crew, lines, pass, hears } = stage();
  pass(8_000);
  hears("p2", { line: 6n });
  assert.equal(crew.line, 6);
  assert.deepEqual(lines.at(-1), [6, undefined], "nobody knows yet what lies there");
  hears("p3", { line: 6n, holders: [holding("p3")] as never });
  assert.deepEqual(lines.at(-1), [6, heldState]);
  const told = lines.length;
  hears("p2", { line: 6n, holders: [holding("p2")] as never });
  assert.equal(lines.length, told, "it is told once");
});

test("a line that was drawn alone, behind a split, is given up where orchestrators are back and nobody else holds it", () => {
  const { crew, at, pass, hears } = stage([keptHere]);
  pass(10_000);
  assert.equal(crew.line, 6, "alone, one holder is all there are");
  const back = () => {
    at.orchestratorMs = at.orchestratorMs === undefined ? 10_000 : at.orchestratorMs + 400;
    for (const peer of ["p2", "p3"]) hears(peer, { orchestratorAgeMs: 0 });
  };
  pass(9_000, back);
  assert.deepEqual([crew.line, at.startedOver], [6, 0], "others have time to tell what they hold");
  pass(4_000, back);
  assert.deepEqual([crew.line, at.startedOver], [0, 1]);
  pass(20_000, back);
  assert.deepEqual([crew.line, at.startedOver], [0, 1], "once");
});

test("a line that somebody else holds too stays, also above the orchestrators'", () => {
  const { crew, at, pass, hears } = stage([keptHere]);
  pass(10_000);
  pass(30_000, () => {
    at.orchestratorMs = (at.orchestratorMs ?? 10_000) + 400;
    hears("p2", { orchestratorAgeMs: 0, line: 6n, holders: [holding("p2")] as never });
    hears("p3", { orchestratorAgeMs: 0 });
  });
  assert.deepEqual([crew.line, at.startedOver], [6, 0]);
});

test("a keeper brings a state to its end also when whoever asked for it waits no longer", async () => {
  const part = new Uint8Array(4);
  const manifest: StateManifest = {
    ...{ metadata: {}, tensors: [{ name: "w", dtype: "float32", shape: [1] }], bytes: 4, partBytes: 4 },
    parts: [sha256(part)],
  };
  const text = writeStateManifest(manifest);
  const kept = new KeptStates(memoryKept());
  const line = Promise.withResolvers<void>();
  const fetch = async (_peer: unknown, { hash }: { hash: string }) => {
    if (hash === sha256(text)) return text;
    await line.promise;
    return part;
  };
  const { crew, done } = stage([], { kept, peers: { fetch } as unknown as CrewPeers });
  const asking = new AbortController();
  const wanted = { vnode: front, step: 6, state: sha256(text), trail: "" as const };
  const keeping = crew.keeping.fetchAndKeep(wanted, [{ pnode: "p2", routes: "p2:1" }], asking.signal);
  await done();
  asking.abort();
  await assert.rejects(keeping, { code: "cancelled" });
  assert.deepEqual(crew.keeping.ownList.states, []);
  line.resolve();
  await done();
  assert.deepEqual(crew.keeping.ownList.states, [wanted]);
});

test("a keeper without room is passed over for a minute: the next successor keeps the state", async () => {
  const asked: string[] = [];
  const keep = async ({ pnode }: Peer) => {
    asked.push(pnode);
    return pnode === full ? fail("resource_exhausted", "its disk is full") : { holder: holding(pnode) };
  };
  const four = new Map(["p1", "p2", "p3", "p4"].map((pnode) => [pnode, { routes: `${pnode}:1`, hosts: true }]));
  const [full, second, third] = successorsOf(session, front, ["p2", "p3", "p4"]) as [string, string, string];
  const never = () => new Promise<never>(() => {});
  const { crew, pass, hears, done } = stage(
    [keptHere],
    { peers: { keep, tell: never, enlist: never } as unknown as CrewPeers },
    { ...charter, crew: four },
  );
  const others = () => {
    for (const pnode of [full, second, third]) hears(pnode, { orchestratorAgeMs: 0 });
  };
  others();
  crew.keeping.replicate();
  await done();
  assert.deepEqual(asked.splice(0), [full, second]);
  assert.match(crew.keeping.troubleOf(front), /has no room to keep its states: its disk is full/);
  pass(400, others);
  await done();
  assert.deepEqual(asked.splice(0), [third]);
  pass(50_000, others);
  await done();
  assert.deepEqual(asked.splice(0), []);
  pass(10_000, others);
  await done();
  assert.deepEqual(asked, [full]);
});

test("a keeper that fails is asked again after longer and longer, and one that has begun at once", async () => {
  const asked: number[] = [];
  let code: ErrorCode = "unavailable";
  const keep = async ({ pnode }: Peer) => {
    if (pnode === "p2") asked.push(1);
    return fail(code, "it went wrong");
  };
  const never = () => new Promise<never>(() => {});
  const peers = { keep, tell: never, enlist: never } as unknown as CrewPeers;
  const { pass, hears, done } = stage([keptHere], { peers });
  const forMs = async (ms: number) => {
    asked.length = 0;
    for (let tick = 0; tick < ms / 400; tick++) {
      pass(400, () => hears("p2", { orchestratorAgeMs: 0 }));
      await done();
    }
    return asked.length;
  };
  await forMs(20_000);
  assert.ok((await forMs(20_000)) <= 4);
  code = "deadline_exceeded";
  await forMs(12_000);
  assert.equal(await forMs(4_000), 10);
});

test("a PNode whose disk is full says so, and after a minute that the VNode has no room there, if an orchestrator may place it elsewhere", async () => {
  const kept = {
    ...{ of: () => [], find: () => undefined, changes: 0, dropBelow: async () => {} },
    keep: async () => fail("resource_exhausted", "the disk that is lent is full"),
  } as unknown as KeptStates;
  const snapshot = { manifest: async () => ({}) as StateManifest, part: async () => new Uint8Array() };
  for (const isThere of [true, false]) {
    const { crew, at, pass, done, nowMs } = stage([], { kept });
    const failed: unknown[] = [];
    const keeping = crew.keeping.keepOwn(front, 6, snapshot, [], new AbortController().signal);
    void keeping.catch((error) => failed.push(error));
    for (let second = 1; second <= 70; second++) {
      if (isThere) at.orchestratorMs = nowMs();
      await done();
      if (second === 30) assert.match(crew.keeping.troubleOf(front), /at step 6 is not kept: the disk that is lent/);
      pass(1_000);
    }
    await done();
    assert.deepEqual(
      failed.map((error) => error instanceof NoRoom),
      isThere ? [true] : [],
      "alone it waits for room: nobody else would take the VNode",
    );
  }
});
