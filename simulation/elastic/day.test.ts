// Days of bursts: budgets hold, nobody is sent away with work, nothing is left running; and each rule that is taken out shows.

import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { instanceStep } from "../../src/orchestrator/providers/instance-step.ts";
import { type Day, type ElasticMutant, elasticDay } from "./day.ts";

const seeds = [1, 2, 3];
const days = (mutant: ElasticMutant = {}): Day[] => seeds.map((seed) => elasticDay({ seed }, mutant));
const mean = (all: readonly Day[], of: (day: Day) => number) => all.reduce((sum, day) => sum + of(day), 0) / all.length;
const costs = (all: readonly Day[]) => mean(all, ({ spent }) => spent) / mean(all, ({ gpuHours }) => gpuHours);

describe("a day of bursts", () => {
  const usual = days();

  it("keeps to its budgets, sends nobody away with work, leaves nothing running, and gets the work done", () => {
    for (const day of usual) {
      assert.deepEqual(day.wrong, []);
      assert.ok(day.done > 50 && day.losses > 0, `${day.done} jobs, ${day.losses} losses`);
    }
    // Four VNodes of an hour on the cheapest machine cost 0.3 each.
    assert.ok(costs(usual) < 1, `${costs(usual)} for an hour of a VNode`);
    assert.ok(mean(usual, ({ waitMinutes }) => waitMinutes) < 15);
  });

  it("stops at its total budget, by sending work elsewhere", () => {
    for (const seed of seeds) assert.deepEqual(elasticDay({ seed, budgetTotal: 20 }).wrong, []);
  });

  it("shows when offers that lie are not left alone", () => {
    const mutant = days({ blocks: false });
    assert.ok(mean(mutant, ({ waitMinutes }) => waitMinutes) > 2 * mean(usual, ({ waitMinutes }) => waitMinutes));
  });

  it("shows when what was started is forgotten by a crash", () => {
    assert.ok(days({ forgets: true }).some(({ wrong }) => wrong.some((one) => /nobody knows/.test(one))));
  });

  it("shows when budgets are not looked at", () => {
    const unbounded: ElasticMutant = {
      view: (view) => ({
        ...view,
        providers: view.providers.map((one) => ({ ...one, budgetPerHour: 0, budgetTotal: 0 })),
      }),
    };
    const spent = elasticDay({ seed: 1, budgetPerHour: 5 }, unbounded);
    assert.ok(spent.wrong.some((one) => /were allowed/.test(one)));
    assert.deepEqual(elasticDay({ seed: 1, budgetPerHour: 5 }).wrong, []);
  });

  it("shows when machines are ended without being empty", () => {
    const careless: ElasticMutant = { step: (record, sight) => instanceStep(record, { ...sight, isEmpty: true }) };
    const idleAlways: ElasticMutant = {
      ...careless,
      view: (view) => ({
        ...view,
        machines: view.machines.map((one) => (one.state === "up" ? { ...one, idleMs: 1e9 } : one)),
      }),
    };
    assert.ok(days(idleAlways).some(({ wrong }) => wrong.some((one) => /with work on it/.test(one))));
  });

  it("shows when there is no cool-down: short jobs at short distances fetch and give back the same machine", () => {
    const rhythm = { everyMs: 360_000, lastsMs: 60_000 };
    const short = { seed: 1, idleMs: 30_000, rhythm, crashes: false };
    const calm = elasticDay({ ...short, coolDownMs: 1_200_000 });
    const hasty = elasticDay({ ...short, coolDownMs: 0 });
    assert.ok(hasty.starts > 2 * calm.starts, `${hasty.starts} starts without, ${calm.starts} with a cool-down`);
  });
});
