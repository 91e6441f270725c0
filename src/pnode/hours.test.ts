import { strict as assert } from "node:assert";
import { describe, it } from "node:test";
import { hasCode } from "../core/errors.ts";
import { parseHours } from "./hours.ts";

const open = (text: string) => Array.from({ length: 24 }, (_, hour) => hour).filter(parseHours(text));

describe("hours in which a machine is lent", () => {
  it("may lie within a day or reach over midnight", () => {
    assert.deepEqual(open("9-12"), [9, 10, 11]);
    assert.deepEqual(open("22-3"), [0, 1, 2, 22, 23]);
    assert.deepEqual(open("18-24"), [18, 19, 20, 21, 22, 23]);
  });

  it("are all hours if nothing is said", () => {
    assert.equal(open("").length, 24);
    assert.equal(open("8-8").length, 24);
  });

  it("are refused when they are no hours", () => {
    for (const text of ["9", "9-25", "nine-ten", "9-12-15", "-3-4"])
      assert.throws(
        () => parseHours(text),
        (error) => hasCode(error, "invalid_argument"),
      );
  });
});
