// What networks come to when nothing disturbs them: the roots, metrics and answers that every faulty run is compared
// with. Found by the same simulator, and equal to what golden/ trains in one place.

import { sha256 } from "../src/core/hash.ts";
import type { Answers, Expectation, Expected, Result } from "./checks/session-watch.ts";
import { type Build, calmRun, fleetOf, otherClass, type RunSettings, usualBuild, usualClass } from "./draw.ts";
import type { SessionPolicy } from "./maintainer.ts";
import { NetworkRun } from "./network-run.ts";
import type { Scenario } from "./scenarios.ts";

/** More than any seed asks. */
export const questionsMax = 8;

const known = new Map<string, Promise<Result>>();

/** The result of a scenario in a world without faults, on one PNode that learns in one class and answers in another. */
export function baselineOf(
  scenario: Scenario,
  numericsClass = usualClass,
  answering: string = numericsClass,
): Promise<Result> {
  const name = `${scenario.name} ${numericsClass} ${answering}`;
  const before = known.get(name);
  if (before !== undefined) return before;
  const policy = { checkpointEvery: 2, replicas: 1 };
  const computed = undisturbed(scenario, fleetOf(1, 1), policy, { numericsClass, answering });
  known.set(name, computed);
  return computed;
}

export interface UndisturbedOptions {
  readonly numericsClass?: string;
  readonly answering?: string;
  readonly vnodesPerPNode?: number;
}

export async function undisturbed(
  scenario: Scenario,
  fleet: RunSettings["fleet"],
  policy: SessionPolicy,
  { numericsClass = usualClass, answering = numericsClass, vnodesPerPNode = 100 }: UndisturbedOptions = {},
): Promise<Result> {
  const calm = calmRun(scenario, fleet, policy);
  const questions = scenario.speaks ? questionsMax : 0;
  const build: Build = { ...usualBuild, numericsClass, answering };
  const run = new NetworkRun(
    1,
    {
      ...calm,
      sessions: calm.sessions.map((session) => ({ ...session, questions })),
      builds: new Map(fleet.pnodes.map((name) => [name, build])),
      vnodesPerPNode,
    },
    () => undefined,
    {},
  );
  const [violation] = (await run.finish()).violations;
  if (violation !== undefined) throw new Error(`the undisturbed run of ${scenario.name} failed: ${violation.message}`);
  return run.result;
}

/** Whatever the sessions of a run may come to, in each class that its fleet computes in. */
export async function expectationsOf({ sessions, builds }: RunSettings): Promise<Expectation> {
  const classes = [
    usualClass,
    ...([...builds.values()].some((one) => one.numericsClass === otherClass) ? [otherClass] : []),
  ];
  const expected = new Map<string, Map<string, Expected>>();
  for (const { scenario, questions } of sessions) {
    const results = new Map<string, Expected>();
    for (const learning of classes) {
      const answers = new Map<string, Answers>();
      for (const answering of questions > 0 ? classes : [])
        answers.set(answering, (await baselineOf(scenario, learning, answering)).answers);
      results.set(learning, { ...(await baselineOf(scenario, learning)), answers });
    }
    expected.set(sha256(scenario.definition), results);
  }
  return (definition) => expected.get(definition);
}
