// Processes that break a rule of rounds: simulation/rounds.test.ts must notice each where values are hashes of how they were made. They are
// told of rounds, and make something else of it. And a machine that computes a lane in another class than its plan says.

import type { LanePlan, ToldRound } from "../../src/network/rounds.ts";
import type { ProcessEvent } from "../../src/vnode/effects.ts";
import { type OpenProcess, openProcess, type ProcessOptions, type VNodeProcess } from "../../src/vnode/process.ts";
import { commonClass } from "../draw.ts";
import { type Loose, type Mutant, onEvent } from "./mutant.ts";

/** What this lane makes of what it is told; undefined: it did not hear it. */
type Hears = (told: ToldRound, lane: number) => ToldRound | undefined;

function hearing(change: Hears): OpenProcess {
  return <Payload, Asker>(options: ProcessOptions): VNodeProcess<Payload, Asker> => {
    const lane = options.role.copy?.lane ?? 0;
    const heard = (rounds: readonly ToldRound[]) => rounds.flatMap((told) => change(told, lane) ?? []);
    const inner = openProcess<Payload, Asker>({ ...options, rounds: heard(options.rounds ?? []) });
    const step = (event: ProcessEvent<Payload, Asker>) =>
      inner.step(event.kind === "rounds" ? { ...event, rounds: heard(event.rounds) } : event);
    return new Proxy(inner, {
      get: (target, name) => {
        if (name === "step") return step;
        const value = Reflect.get(target, name, target);
        return typeof value === "function" ? value.bind(target) : value;
      },
    });
  };
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

/** What a machine is to host in a round, in the class that all machines have. */
function inCommonClass(assignments: readonly Loose[]): Loose[] {
  return assignments.map((assignment) => {
    const { work } = assignment as { work?: { case?: string; value?: Loose & { rounds?: readonly unknown[] } } };
    if (work?.case !== "learning" || !work.value?.["numericsClass"] || !work.value.rounds?.length) return assignment;
    return { ...assignment, work: { ...work, value: { ...work.value, numericsClass: commonClass } } };
  });
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
};
