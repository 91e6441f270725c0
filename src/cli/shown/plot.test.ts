import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { plot, sparkline } from "./plot.ts";

const falling = Array.from({ length: 200 }, (_, step) => ({ step, value: 10 - step / 20 }));

describe("curves made of letters", () => {
  it("fall where their values fall", () => {
    assert.equal(sparkline([8, 7, 6, 5, 4, 3, 2, 1], 8, true), "█▇▆▅▄▃▂▁");
    assert.equal(sparkline([1, 8], 8, false), "_@");
    assert.equal(sparkline([], 8, true), "");
    assert.equal(sparkline([3, 3, 3], 8, true), "▁▁▁");
  });

  it("take the mean where there are more values than letters", () => {
    assert.equal(sparkline([0, 0, 0, 0, 9, 9, 9, 9], 2, true), "▁█");
  });

  it("keep to their size, name both ends of the axis, and go from the upper left to the lower right", () => {
    for (const unicode of [true, false]) {
      const lines = plot(falling, 60, 6, unicode);
      assert.equal(lines.length, 7);
      for (const line of lines) assert.ok(line.length <= 60, line);
      assert.match(lines[0] ?? "", /^\s*9\.\d+ [│|]\S/);
      assert.match(lines[5] ?? "", /^\s*0\.\d+ [│|]\s+\S+$/);
      assert.match(lines[6] ?? "", /^\s+0\s+199$/);
    }
  });

  it("show nothing where there is nothing to see, and survive numbers that are none", () => {
    assert.deepEqual(plot(falling.slice(0, 2), 60, 6, true), []);
    assert.deepEqual(plot(falling, 15, 6, true), []);
    const odd = [...falling, { step: 200, value: Number.NaN }, { step: 201, value: Number.POSITIVE_INFINITY }];
    assert.equal(plot(odd, 60, 6, true).length, 7);
    assert.ok(!plot(odd, 60, 6, true).join("").includes("NaN"));
  });
});
