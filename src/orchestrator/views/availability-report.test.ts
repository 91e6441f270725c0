// Days into rows: oracles are sums that are too simple to be wrong.

import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { dayOf, type MachineDay, noHours } from "../records/availability.ts";
import { type Grouping, recoveriesIn, rowOf, rowsIn } from "./availability-report.ts";

const hourMs = 3_600_000;
const startMs = Date.UTC(2026, 10, 16);

const machine = (
  pnode: string,
  day: string,
  parts: Partial<Record<"onlineMs" | "closedMs" | "lostMs" | "failures", Record<number, number>>>,
): MachineDay => {
  const hours = (given: Record<number, number> = {}) => noHours().map((_, hour) => given[hour] ?? 0);
  return {
    ...{ day, pnode, name: pnode, owner: pnode < "c" ? "anna" : "ben", provider: "" },
    ...{
      onlineMs: hours(parts.onlineMs),
      closedMs: hours(parts.closedMs),
      lostMs: hours(parts.lostMs),
      failures: hours(parts.failures),
    },
  };
};

describe("days", () => {
  it("are the calendar's, whatever the year", () => {
    for (let wallMs = Date.UTC(1999, 11, 30, 5); wallMs < Date.UTC(2101, 0, 3); wallMs += 37 * hourMs + 11) {
      const text = new Date(wallMs).toISOString();
      assert.deepEqual(dayOf(wallMs), { day: text.slice(0, 10), hour: Number(text.slice(11, 13)) });
    }
  });
});

describe("the report", () => {
  const days = [
    machine("a", "2026-11-16", {
      onlineMs: { 10: hourMs, 11: hourMs / 2 },
      lostMs: { 11: hourMs / 2 },
      failures: { 11: 1 },
    }),
    machine("b", "2026-11-16", { onlineMs: { 10: hourMs }, closedMs: { 11: hourMs } }),
    machine("c", "2026-11-17", { onlineMs: { 0: hourMs }, lostMs: { 1: hourMs }, failures: { 1: 2 } }),
  ];
  const all = { fromMs: startMs, toMs: startMs + 48 * hourMs - 1 };

  it("adds up what was there and what was missing; hours that were not lent count neither way", () => {
    const whole = rowOf("all", days, all, 0.9);
    assert.deepEqual([whole.machines, whole.failures], [3, 3]);
    assert.equal(whole.onlineMs, 3.5 * hourMs);
    assert.equal(whole.lostMs, 1.5 * hourMs);
    assert.equal(whole.uptime, 0.7);
    assert.equal(rowOf("b", days.slice(1, 2), all, 0.9).uptime, 1);
    assert.ok(Math.abs(whole.budgetMs - 0.5 * hourMs) < 1);
    assert.ok(Math.abs(whole.budgetLeftMs + hourMs) < 1, "an hour more than the budget was lost");
    assert.equal(whole.downMs, hourMs / 2);
    assert.equal(rowOf("nobody", [], all, 0.9).uptime, 0);
  });

  it("groups by machine and owner, the worst first, and takes whole hours of any stretch", async () => {
    const rowsBy = async (by: Grouping) =>
      (await rowsIn(days, { stretch: all, objective: 0.99, by }, () => assert.fail("three days are few"))).rows;
    assert.deepEqual(
      (await rowsBy("machine")).map(({ name, uptime }) => [name, uptime]),
      [
        ["c (c)", 0.5],
        ["a (a)", 0.75],
        ["b (b)", 1],
      ],
    );
    assert.deepEqual(
      (await rowsBy("owner")).map(({ name, machines }) => [name, machines]),
      [
        ["ben", 1],
        ["anna", 2],
      ],
    );
    const late = { fromMs: startMs + 11 * hourMs + 5, toMs: startMs + 24 * hourMs };
    assert.equal(
      rowOf("all", days, late, 0.99).onlineMs,
      1.5 * hourMs,
      "from eleven until the first hour of the next day",
    );
  });

  it("lets others get their turn while a long time of a large fleet is added up", async () => {
    const many = Array.from({ length: 5_500 }, (_, index) =>
      machine(`m${index % 50}`, "2026-11-16", { onlineMs: { 10: 1 } }),
    );
    let breaths = 0;
    const { whole, rows } = await rowsIn(many, { stretch: all, objective: 0.99, by: "machine" }, async () => {
      breaths += 1;
    });
    assert.deepEqual([breaths, rows.length, whole.machines, whole.onlineMs], [5, 50, 50, 5_500]);
  });

  it("says how long training took to go on after losses, and what was computed again", () => {
    const hours = (hour: number, value: number) => noHours().map((_, own) => (own === hour ? value : 0));
    const network = [
      {
        day: "2026-11-16",
        recoveries: hours(3, 2),
        recoveryMs: hours(3, 9_000),
        longestMs: hours(3, 7_000),
        steps: hours(3, 100),
        repeated: hours(3, 4),
      },
    ];
    assert.deepEqual(recoveriesIn(network, all), {
      count: 2,
      meanMs: 4_500,
      longestMs: 7_000,
      steps: 100,
      repeated: 4,
    });
    assert.equal(recoveriesIn(network, { fromMs: startMs + 5 * hourMs, toMs: all.toMs }).count, 0);
  });
});
