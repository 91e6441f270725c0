import { strict as assert } from "node:assert";
import { describe, it } from "node:test";
import { longRun } from "./long-run.ts";

const base = { seed: 1, intervals: 150, honestFor: 0, lieShare: 0, liars: 0, cartel: false };

describe("hundreds of intervals in which a tenth is checked", () => {
  it("find whoever lies always within thirty intervals, and nothing that is final is wrong", () => {
    const { untilOut, stillIn, honestOut, wrong, final } = longRun({ ...base, liars: 20, lieShare: 1 });
    assert.deepEqual({ stillIn, honestOut, wrong }, { stillIn: 0, honestOut: 0, wrong: 0 });
    assert.ok(untilOut.length >= 10, "most of them had something to compute");
    assert.ok(Math.max(...untilOut) <= 30, String(untilOut));
    assert.equal(final, 24 * base.intervals);
  });

  it("blame nobody while nobody lies, and repeat less the longer machines are known", () => {
    const short = longRun(base);
    assert.deepEqual([short.honestOut, short.wrong, short.untilOut.length], [0, 0, 0]);
    const long = longRun({ ...base, intervals: 3 * base.intervals });
    assert.ok(long.repeated / long.computed < 0.75 * (short.repeated / short.computed));
  });

  it("let single lies through, as the certificate says", () => {
    const { wrong, honestOut } = longRun({ ...base, liars: 30, honestFor: 40, lieShare: 1, liesMost: 1 });
    assert.ok(wrong > 0, "otherwise these worlds would not notice a lie that is final");
    assert.equal(honestOut, 0);
  });
});
