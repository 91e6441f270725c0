// Processes that break a rule of rounds: simulation/rounds.test.ts must notice each where values are hashes of how they were made. They are
// told of rounds, and make something else of it. And machines that compute a lane in another class than its plan says, and orchestrators that
// write other records of rounds.

import { laneOf } from "../../src/network/lanes.ts";
import type { LanePlan, ToldRound } from "../../src/network/rounds.ts";
import type { ClosingRecord, RoundRecord } from "../../src/orchestrator/records/rounds.ts";
import { key } from "../../src/orchestrator/records/store-keys.ts";
import type { VNodeRecord } from "../../src/orchestrator/records/vnodes.ts";
import type { StateStore } from "../../src/store/records/state-store.ts";
import { RoundBook } from "../../src/vnode/book.ts";
import {
  type OpenProcess,
  openProcess,
  type ProcessOptions,
  type ProcessParts,
  type VNodeProcess,
} from "../../src/vnode/process.ts";
import { StepWork } from "../../src/vnode/step-work.ts";
import type { Records } from "../checks/records.ts";
import { commonClass } from "../draw.ts";
import { keepsItsMoments } from "./moments.ts";
import { type Loose, type Mutant, onEvent } from "./mutant.ts";
import { keepsSumsUnrounded } from "./sums.ts";
import { startingAt } from "./tampers.ts";

/** What this lane makes of what it is told; undefined: it did not hear it. */
type Hears = (told: ToldRound, lane: number) => ToldRound | undefined;

function hearing(change: Hears): OpenProcess {
  return <Payload, Asker>(options: ProcessOptions): VNodeProcess<Payload, Asker> => {
    const lane = options.role.copy?.lane ?? 0;
    const heard = (rounds: readonly ToldRound[]) => rounds.flatMap((told) => change(told, lane) ?? []);
    const inner = openProcess<Payload, Asker>({ ...options, rounds: heard(options.rounds ?? []) });
    return stepping(inner, (event) =>
      inner.step(event.kind === "rounds" ? { ...event, rounds: heard(event.rounds) } : event),
    );
  };
}

/** The same process, to which this happens where something happens to it. */
function stepping<Payload, Asker>(
  inner: VNodeProcess<Payload, Asker>,
  step: VNodeProcess<Payload, Asker>["step"],
): VNodeProcess<Payload, Asker> {
  return new Proxy(inner, {
    get: (target, name) => {
      if (name === "step") return step;
      const value = Reflect.get(target, name, target);
      return typeof value === "function" ? value.bind(target) : value;
    },
  });
}

const lanesIn = ({ lanes }: ToldRound) => lanes.map(({ lane }) => lane);

/** Tells what it learned as soon as a round is planned, whoever will count. */
export const doesNotAwaitTheClosing = hearing((told) => ({ ...told, counted: told.counted ?? lanesIn(told) }));

/** Takes all who were planned to count, also those who were late. */
export const countsLateLanes = hearing((told) => (told.counted ? { ...told, counted: lanesIn(told) } : told));

/** Learns in as many steps as every other lane, whatever the plan says. */
export const learnsWithoutAPlan = hearing((told, own) => {
  const most = Math.max(...told.lanes.map(({ steps }) => steps));
  const samplesOf = ({ steps, samples }: LanePlan): LanePlan["samples"] => {
    const [[first, count]] = samples as [readonly [number, number]];
    return [[first, (count / steps) * most]];
  };
  const lanes = told.lanes.map((one) => (one.lane === own ? { ...one, steps: most, samples: samplesOf(one) } : one));
  return { ...told, lanes };
});

/** Weighs all lanes alike, however many steps they took. */
export const weighsLanesAlike = hearing((told, own) => ({
  ...told,
  lanes: told.lanes.map((one) => (one.lane === own ? one : { ...one, steps: 1 })),
}));

/** Goes on in a round that has closed without it. */
export const goesOnThoughLate = hearing((told, own) =>
  told.counted && lanesIn(told).includes(own) && !told.counted.includes(own)
    ? { ...told, counted: [...told.counted, own] }
    : told,
);

/** Takes whatever class it computes in for the right one. */
const ignoringClasses: OpenProcess = (options) => openProcess({ ...options, classes: { own: "", common: "" } });

/** What a machine is to host in a round, in the class that all machines have. `isMeant`: only at such a line of such a session. */
function inCommonClass(
  assignments: readonly Loose[],
  isMeant: (session: string, line: number) => boolean = () => true,
): Loose[] {
  return assignments.map((assignment) => {
    const { work } = assignment as { work?: { case?: string; value?: Loose & { rounds?: readonly unknown[] } } };
    if (work?.case !== "learning" || !work.value?.["numericsClass"] || !work.value.rounds?.length) return assignment;
    if (!isMeant(String(assignment["session"]), Number(work.value["line"]))) return assignment;
    return { ...assignment, work: { ...work, value: { ...work.value, numericsClass: commonClass } } };
  });
}

/** After the last round it begins again, and evaluates in whatever class it is in by then. */
const evaluatingAnywhere: OpenProcess = <Payload, Asker>(options: ProcessOptions): VNodeProcess<Payload, Asker> => {
  const { line, schedule } = options;
  const openWork: ProcessParts["openWork"] = (_, step, role, book) =>
    new StepWork(schedule, step, role, step === schedule.steps ? new RoundBook(schedule) : book);
  const inner = openProcess<Payload, Asker>({ ...options, parts: { ...options.parts, openWork } });
  return stepping(inner, (event) => {
    const effects = inner.step(event);
    const isOver = inner.currentStep === schedule.steps && line < schedule.steps - 1;
    return isOver ? [...effects, { kind: "restart" }] : effects;
  });
};

/** Does something else where a record of one kind is created. */
function creating(
  view: StateStore,
  kind: "round" | "closing",
  create: (name: string, value: string, expected: number) => Promise<number | undefined>,
): StateStore {
  return new Proxy(view, {
    get: (target, property) => {
      if (property !== "put") return Reflect.get(target, property, target).bind(target);
      return (name: string, value: string, expected: number) =>
        name.startsWith(`${kind}/`) ? create(name, value, expected) : target.put(name, value, expected);
    },
  });
}

/** Plans that give out the data in order, whatever late lanes have left of it. */
const forgettingLeavings = (view: StateStore, records: Records) =>
  creating(view, "round", async (name, value, expected) => {
    const plan = JSON.parse(value) as RoundRecord;
    const { microbatches = 0, sync } = records.session(plan.session)?.identity ?? {};
    const before = plan.round === 0 ? undefined : await view.get(key.round(plan.session, plan.round - 1));
    let next = before ? (JSON.parse(before.value) as RoundRecord).next : (sync?.after ?? 0) * microbatches;
    const lanes = plan.lanes.map((one): LanePlan => {
      const count = one.samples.reduce((sum, [, size]) => sum + size, 0);
      next += count;
      return { ...one, samples: [[next - count, count]] };
    });
    const forgetful: RoundRecord = { ...plan, lanes, next, left: [], collected: plan.round };
    return view.put(name, JSON.stringify(forgetful), expected);
  });

/** Who turns out to be late is struck from a closing that is written already. */
const closingAgain = (view: StateStore) =>
  creating(view, "closing", async (name, value, expected) => {
    const version = await view.put(name, value, expected);
    const { counted, ...closing } = JSON.parse(value) as ClosingRecord;
    if (version === undefined || counted.length < 2) return version;
    return view.put(name, JSON.stringify({ ...closing, counted: counted.slice(0, -1) }), version);
  });

/** All count, before anybody knows what they are to learn. */
const closingFirst = (view: StateStore) =>
  creating(view, "round", async (name, value, expected) => {
    const { session, round, lanes } = JSON.parse(value) as RoundRecord;
    const closing: ClosingRecord = { session, round, counted: lanes.map(({ lane }) => lane) };
    await view.put(key.closing(session, round), JSON.stringify(closing), 0);
    return view.put(name, value, expected);
  });

/** Steps after which states are stored at all VNodes of the lane that a VNode belongs to. */
function storedInLane(records: Records, { session, vnode, durable }: VNodeRecord): number[] {
  const others = (records.session(session)?.vnodes ?? []).filter((id) => laneOf(id) === laneOf(vnode));
  const isStored = (step: string) => others.every((id) => records.vnode(session, id)?.durable[step] !== undefined);
  return Object.keys(durable).filter(isStored).map(Number);
}

export const roundMutants: Readonly<Record<string, Mutant>> = {
  "computes-in-another-class": {
    fault: "a lane is computed in another class than the plan of its round says",
    shows: ["divergence"],
    elastic: true,
    process: ignoringClasses,
    tamper: () =>
      onEvent("assignments", (told) => ({ ...told, assignments: inCommonClass(told["assignments"] as Loose[]) })),
  },
  "evaluates-in-another-class": {
    fault: "a lane evaluates what the last round came to in another class than its plan says",
    shows: ["divergence"],
    elastic: true,
    process: evaluatingAnywhere,
    tamper: (records) => {
      const isLast = (id: string, line: number) => line + 1 === records.session(id)?.identity.steps;
      return onEvent("assignments", (told) => ({
        ...told,
        assignments: inCommonClass(told["assignments"] as Loose[], isLast),
      }));
    },
  },
  "has-a-line-for-each-lane": {
    fault: "owners of a lane start at the newest step that is stored at all of that lane, wherever the others are",
    shows: ["hang"],
    elastic: true,
    tamper: (records) => startingAt(records, (record) => storedInLane(records, record)),
  },
  "keeps-moments-without-a-part": {
    fault: "a lane that had no part in a round goes on from the weights of the others with its own moments",
    shows: ["divergence"],
    elastic: true,
    store: keepsItsMoments,
  },
  "tells-before-the-closing": {
    fault: "lanes tell what they learned in a round before it is known whose work counts",
    shows: ["hang", "divergence"],
    elastic: true,
    process: doesNotAwaitTheClosing,
  },
  "keeps-its-sum-unrounded": {
    fault: "whoever adds up what a round taught keeps the sum as it was before it was rounded for the others",
    shows: ["divergence"],
    elastic: true,
    executor: keepsSumsUnrounded,
  },
  "forgets-what-late-lanes-left": {
    fault: "samples of lanes whose work does not count are in no later plan",
    shows: ["samples"],
    elastic: true,
    store: forgettingLeavings,
  },
  "closes-a-round-again": {
    fault: "the closing of a round is written again without a lane that turned out to be late",
    shows: ["samples"],
    elastic: true,
    store: closingAgain,
  },
  "closes-before-it-plans": {
    fault: "a round is closed before its plan is written",
    shows: ["samples"],
    elastic: true,
    store: closingFirst,
  },
};
