// Whole crews over lines that take their time: what they tell of each other must grow old although it is told back and forth.

import assert from "node:assert/strict";
import { test } from "node:test";
import { create } from "@bufbuild/protobuf";
import type { SessionId, VNodeId } from "../../core/ids.ts";
import { Tasks } from "../../core/tasks.ts";
import { silentLog, type World } from "../../core/world.ts";
import type { Charter } from "../../crew/charter.ts";
import { crewRules } from "../../crew/crew.ts";
import { type TellRequest, TellRequestSchema } from "../../protocol/gen/dcnr/v1/session_peers_pb.ts";
import { timingsDefault } from "../options.ts";
import type { SessionCrewOptions } from "./crew-cell.ts";
import type { KeptStates } from "./kept-states.ts";
import type { CrewPeers, Peer } from "./peers.ts";
import { SessionCrew } from "./session-crew.ts";

const session = "s-1" as SessionId;
const timings = { ...timingsDefault, silentMs: timingsDefault.crewSilentMs };

/** A crew on one clock; each message takes `wayMs`. Its orchestrators are heard until they are gone. */
function crewOf(size: number, wayMs: number, vnodes = ["front" as VNodeId]) {
  let nowMs = 0;
  const due: { atMs: number; callback: () => void }[] = [];
  const after = (ms: number, callback: () => void) => {
    const timer = { atMs: nowMs + ms, callback };
    due.push(timer);
    return () => void (due.includes(timer) && due.splice(due.indexOf(timer), 1));
  };
  const way = () => new Promise<void>((resolve) => void after(wayMs, resolve));
  const dead = new Set<string>();
  const crews = new Map<string, SessionCrew>();
  const names = Array.from({ length: size }, (_, index) => `p${index}`);
  const charter: Charter = {
    ...{ session, revision: 1n, issuedWallMs: 0, expiresWallMs: 1e12, numericsClass: "reference" },
    crew: new Map(names.map((pnode) => [pnode, { routes: `${pnode}:1`, hosts: false }])),
    vnodes: vnodes.map((vnode, index) => {
      const owners = [{ pnode: names[index % size] as string, incarnation: "1" }];
      return { vnode, tenure: { vnode, epoch: 1, count: 0, owners }, state: "" };
    }),
    ...{ line: 0, turn: 0, keepers: 2 },
  };
  const [charterBytes, publicKey, signature] = [new Uint8Array(), new Uint8Array(), new Uint8Array()];
  const signed = { charter: charterBytes, publicKey, signature, former: [] };
  let goneMs = Number.POSITIVE_INFINITY;
  const open = (pnode: string, index: number) => {
    const world: World = {
      clock: { wallMs: () => nowMs, monotonicMs: () => nowMs },
      timers: { after },
      chance: { bytes: (count) => new Uint8Array(count), uniform: () => (index * 0.37 + nowMs / 977) % 1 },
      log: silentLog,
    };
    const tell = async (peer: Peer, request: object) => {
      const { incarnation, routes, news } = create(TellRequestSchema, request) as TellRequest;
      await way();
      const other = crews.get(peer.pnode);
      if (other === undefined || dead.has(peer.pnode) || news === undefined) return new Promise<never>(() => {});
      other.heard(pnode, incarnation, routes, news);
      const answer = create(TellRequestSchema, { incarnation: "1", news: other.telling.newsFor(pnode) });
      await way();
      return dead.has(pnode) ? new Promise<never>(() => {}) : answer;
    };
    const options: SessionCrewOptions = {
      self: { pnode, incarnation: "1" },
      ...{ world, timings, tasks: new Tasks(silentLog), signal: new AbortController().signal, rules: crewRules },
      kept: { of: () => [], find: () => undefined, changes: 0, dropBelow: async () => {} } as unknown as KeptStates,
      peers: { tell } as unknown as CrewPeers,
      routes: () => `${pnode}:1`,
      orchestratorHeardMs: () => (nowMs < goneMs ? nowMs : undefined),
      nobodyListens: () => nowMs >= goneMs,
      fetchStored: () => new Promise<never>(() => {}),
      hooks: {
        ...{ hosted: () => [], lastStep: () => 100, hasRoom: () => false, memoryBytesOf: () => 1, host: () => {} },
        ...{ giveUp: () => {}, startOver: () => {}, onLine: () => {}, onTenures: () => {} },
      },
    };
    crews.set(pnode, new SessionCrew(charter, signed, options));
  };
  for (const [index, pnode] of names.entries()) after(index * 53, () => open(pnode, index));
  /** Until the condition holds, or so much time has passed; gives how much did. */
  const until = async (condition: () => boolean, mostMs: number) => {
    const fromMs = nowMs;
    while (!condition() && nowMs - fromMs < mostMs) {
      due.sort((a, b) => a.atMs - b.atMs);
      const next = due.shift();
      if (next === undefined) break;
      nowMs = next.atMs;
      next.callback();
      await new Promise(setImmediate);
    }
    return nowMs - fromMs;
  };
  return {
    until,
    orchestratorsGo: () => {
      goneMs = nowMs;
    },
    die: (pnode: string) => {
      dead.add(pnode);
      crews.get(pnode)?.stop();
    },
    areAlone: () => [...crews.values()].every((crew) => crew.isAlone),
    /** Whether all who live take it for dead. */
    mourn: (pnode: string) =>
      [...crews].every(([name, crew]) => dead.has(name) || !crew.others().some((peer) => peer.pnode === pnode)),
    newsBytes: () => [...crews.values()].reduce((sum, crew) => sum + crew.telling.newsBytes, 0),
    /** How many each takes for living. */
    living: () => [...crews].filter(([name]) => !dead.has(name)).map(([, crew]) => crew.others().length + 1),
  };
}

for (const wayMs of [1, 50, 100, 200])
  test(`a crew of 8 with ways of ${wayMs} ms knows as soon as any that it is alone, and who is dead`, async () => {
    const crew = crewOf(8, wayMs);
    await crew.until(() => false, 5_000);
    crew.orchestratorsGo();
    const aloneMs = await crew.until(crew.areAlone, 10_000);
    assert.ok(aloneMs >= timings.aloneAtOnceMs && aloneMs <= 2_600, `alone after ${aloneMs} ms`);
    crew.die("p3");
    const deadMs = await crew.until(() => crew.mourn("p3"), 10_000);
    assert.ok(deadMs <= 2_200, `dead after ${deadMs} ms`);
  });

test("nobody of a crew that is told in turns is taken for dead over lines of 100 ms", async () => {
  const crew = crewOf(24, 100);
  await crew.until(() => false, 5_000);
  for (let look = 0; look < 20; look++) {
    await crew.until(() => false, 400);
    assert.deepEqual(new Set(crew.living()), new Set([24]));
  }
});

test("news of a crew leaves out what the others know, with orchestrators and without", async () => {
  const vnodes = Array.from({ length: 138 }, (_, index) => `vnode-${index}` as VNodeId);
  const crew = crewOf(10, 5, vnodes);
  const bytesPerTell = async () => {
    await crew.until(() => false, 5_000);
    const before = crew.newsBytes();
    await crew.until(() => false, 10_000);
    // Six of the crew are told 2.5 times a second, and answer.
    return (crew.newsBytes() - before) / (10 * 10 * 2.5 * 6 * 2);
  };
  const all = vnodes.length * 30;
  const withThem = await bytesPerTell();
  assert.ok(withThem > 0 && withThem < all / 5, `${withThem} bytes a tell`);
  crew.orchestratorsGo();
  const alone = await bytesPerTell();
  assert.ok(alone < all / 5, `${alone} bytes a tell`);
});
