// Two orchestrators and one PNode between them, in every order in which streams break, writes are done, answers get
// lost and news arrives. From wherever that leads, all must agree in the end on where the PNode is, or that it is lost.

import assert from "node:assert/strict";
import { describe, it } from "node:test";
import type { RecordChange } from "./record-changes.ts";
import type { Recorded, Standing, StandingEvent } from "./standing.ts";
import { step } from "./standing-step.ts";

const rules = { heartbeatIntervalMs: 1_000, silentMs: 3_000, graceMs: 400 };
const names = ["A", "B"] as const;
type Name = (typeof names)[number];

interface World {
  readonly alive: boolean;
  /** The stream that the PNode has open or is opening. */
  readonly stream: string;
  readonly record: { readonly attachment: string; readonly status: Recorded["status"] };
  readonly standings: Readonly<Record<Name, Standing | undefined>>;
  /** What will happen, in any order. */
  readonly pending: readonly Pending[];
  readonly registrations: number;
  readonly answersLost: number;
}

type Pending =
  | { readonly kind: "register"; readonly nonce: string }
  | { readonly kind: "answer"; readonly nonce: string }
  | { readonly kind: "write"; readonly nonce: string; readonly change: RecordChange }
  | { readonly kind: "event"; readonly at: Name; readonly event: StandingEvent }
  /** The orchestrator reads the record, as it then is. */
  | { readonly kind: "news"; readonly at: Name };

/** Streams are named after the orchestrator that they go to. */
const ownerOf = (nonce: string) => nonce[0] as Name;

function recordedAt(at: Name, { record, pending }: World): Recorded {
  const { attachment, status } = record;
  const orchestrator = ownerOf(attachment);
  const isBeingMade = orchestrator === at && pending.some((one) => one.kind === "answer" && one.nonce === attachment);
  return { attachment, status, isBeingMade, orchestrator, closed: false };
}

/** Time stands still: only the order of things matters here. */
function happens(world: World, at: Name, event: StandingEvent): World {
  const { standing, effects } = step(world.standings[at], event, 0, rules);
  let next: World = { ...world, standings: { ...world.standings, [at]: standing } };
  for (const effect of effects) {
    if (effect.kind === "write") next = adding(next, { kind: "write", nonce: effect.nonce, change: effect.change });
    if (effect.kind === "later") next = adding(next, { kind: "event", at, event: effect.event });
    if (effect.kind === "close" && next.stream === effect.nonce) next = { ...next, stream: "" };
  }
  return next;
}

function adding(world: World, ...more: Pending[]): World {
  const known = new Set(world.pending.map((one) => JSON.stringify(one)));
  return { ...world, pending: [...world.pending, ...more.filter((one) => !known.has(JSON.stringify(one)))] };
}

function recording(world: World, record: World["record"]): World {
  return adding({ ...world, record }, ...names.map((at) => ({ kind: "news", at }) as const));
}

function opens(world: World, at: Name): World {
  const nonce = `${at}${world.registrations}`;
  const left = leavesStream(world);
  return adding({ ...left, stream: nonce, registrations: world.registrations + 1 }, { kind: "register", nonce });
}

/** Whoever serves the stream notices some time. */
function leavesStream(world: World): World {
  const { stream } = world;
  if (stream === "") return world;
  return adding(
    { ...world, stream: "" },
    { kind: "event", at: ownerOf(stream), event: { kind: "broken", nonce: stream } },
  );
}

function perform(world: World, index: number, answerIsLost: boolean): World {
  const one = world.pending[index] as Pending;
  const rest = { ...world, pending: world.pending.toSpliced(index, 1) };
  switch (one.kind) {
    case "register":
      return adding(recording(rest, { attachment: one.nonce, status: "online" }), { kind: "answer", nonce: one.nonce });
    case "answer": {
      if (answerIsLost) {
        const lost = { ...rest, answersLost: rest.answersLost + 1 };
        return lost.stream === one.nonce ? { ...lost, stream: "" } : lost;
      }
      const at = ownerOf(one.nonce);
      const event = { kind: "registered", nonce: one.nonce, incarnation: "p", patienceMs: undefined } as const;
      const known = happens(rest, at, event);
      const compared = happens(known, at, { kind: "recorded", recorded: recordedAt(at, known) });
      // Its stream may have ended before anybody listened to it.
      if (compared.stream === one.nonce) return compared;
      return happens(compared, at, { kind: "broken", nonce: one.nonce });
    }
    case "write": {
      const { nonce, change } = one;
      const status = change.kind === "status" ? change.status : rest.record.status;
      const changed = rest.record.attachment === nonce && rest.record.status !== status;
      const written = changed ? recording(rest, { ...rest.record, status }) : rest;
      return adding(written, { kind: "event", at: ownerOf(nonce), event: { kind: "written", nonce, change, changed } });
    }
    case "event":
      return happens(rest, one.at, one.event);
    case "news":
      return happens(rest, one.at, { kind: "recorded", recorded: recordedAt(one.at, rest) });
  }
}

function beats(world: World): World {
  const at = ownerOf(world.stream);
  const recorded = recordedAt(at, world);
  return happens(world, at, { kind: "heartbeat", nonce: world.stream, accepting: true, latencyMs: 0, recorded });
}

function nextWorlds(world: World, registrationsMax: number): World[] {
  const next = world.pending.map((_, index) => perform(world, index, false));
  world.pending.forEach((one, index) => {
    if (one.kind === "answer" && world.answersLost === 0) next.push(perform(world, index, true));
  });
  if (!world.alive) return next;
  if (world.registrations < registrationsMax) next.push(...names.map((at) => opens(world, at)));
  if (world.stream !== "" && world.standings[ownerOf(world.stream)]?.nonce === world.stream) next.push(beats(world));
  next.push({ ...leavesStream(world), alive: false });
  return next;
}

/** Nothing more goes wrong, and everybody does what is due. */
function settled(from: World): World {
  let world = from;
  for (let round = 0; round < 50; round++) {
    const before = JSON.stringify(world);
    while (world.pending.length > 0) world = perform(world, 0, false);
    if (world.alive && world.stream === "") world = opens(world, "A");
    while (world.pending.length > 0) world = perform(world, 0, false);
    if (world.alive && world.stream !== "") world = beats(world);
    const { attachment, status } = world.record;
    // As orphans.ts does: its orchestrator lives and knows nothing of it.
    if (status === "online" && world.standings[ownerOf(attachment)]?.nonce !== attachment)
      world = recording(world, { attachment, status: "lost" });
    if (world.pending.length === 0 && JSON.stringify(world) === before) return world;
  }
  return assert.fail(`never settles from ${JSON.stringify(from)}`);
}

/** What is under way has no order. */
function nameOf(world: World): string {
  const pending = world.pending.map((one) => JSON.stringify(one)).sort();
  return JSON.stringify({ ...world, pending });
}

const start: World = {
  alive: true,
  stream: "",
  record: { attachment: "", status: "lost" },
  standings: { A: undefined, B: undefined },
  pending: [],
  registrations: 0,
  answersLost: 0,
};

function checkAgreement(from: World): void {
  const { alive, stream, record, standings } = settled(from);
  const held = names.flatMap((at) => standings[at]?.nonce ?? []);
  const wanted = alive
    ? { status: "online", attachment: stream, held: [stream] }
    : { status: "lost", attachment: record.attachment, held: [] };
  assert.deepEqual({ ...record, held }, wanted, `from ${nameOf(from)}`);
}

describe("two orchestrators agree in the end on where a PNode is, or that it is lost", () => {
  it("in every order of things, with two registrations", () => {
    const seen = new Set<string>();
    const open = [start];
    for (let world = open.pop(); world !== undefined; world = open.pop()) {
      const name = nameOf(world);
      if (seen.has(name)) continue;
      seen.add(name);
      checkAgreement(world);
      open.push(...nextWorlds(world, 2));
    }
    assert.ok(seen.size > 1_000, `${seen.size} situations were looked at`);
  });

  it("in orders drawn at random, with up to six registrations", () => {
    let drawn = 1;
    const draw = (below: number) => {
      drawn = (Math.imul(drawn, 1_664_525) + 1_013_904_223) >>> 0;
      return Math.floor((drawn / 2 ** 32) * below);
    };
    for (let walk = 0; walk < 300; walk++) {
      let world = start;
      for (let length = draw(60); length > 0; length--) {
        const next = nextWorlds(world, 6);
        // Death ends most stories: it is drawn now and then, not as one possibility among few.
        const choices = draw(20) === 0 ? next : next.filter((one) => one.alive === world.alive);
        world = choices[draw(choices.length)] ?? world;
      }
      checkAgreement(world);
    }
  });
});
