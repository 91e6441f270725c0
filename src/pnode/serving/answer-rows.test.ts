import { strict as assert } from "node:assert";
import { describe, it } from "node:test";
import type { Tensor } from "../../core/tensor.ts";
import { AnswerRows, answerName, hashesOfRows, rootOf } from "./answer-rows.ts";

const tensor = (...rows: number[]): Tensor => ({
  ...{ dtype: "float32", shape: [rows.length, 2] },
  data: Float32Array.from(rows.flatMap((row) => [row, row / 2])),
});
const expected = (...rows: number[]) => rootOf(hashesOfRows(tensor(...rows), rows.length), 0, rows.length);
const rootsOf = (rows: AnswerRows, request: string, end: number, first = 0) =>
  rows.roots(answerName(1, request), () => first, end).get("sent e");

describe("what is remembered of an answer", () => {
  it("is the same in whatever pieces it came, and beside whomever", () => {
    const rows = new AnswerRows();
    rows.record(1, [{ request: "x", position: 0, tokens: 2 }], "sent e", tensor(1, 2));
    const both = [
      { request: "y", position: 0, tokens: 1 },
      { request: "x", position: 2, tokens: 1 },
    ];
    rows.record(1, both, "sent e", tensor(9, 3));
    assert.equal(rootsOf(rows, "x", 3), expected(1, 2, 3));
    assert.equal(rootsOf(rows, "y", 1), expected(9));
    assert.equal(rootsOf(rows, "x", 4), undefined, "not all of it is known");
  });

  it("forgets guesses that were wrong, and takes the beginning that another request had", () => {
    const rows = new AnswerRows();
    rows.record(1, [{ request: "x", position: 0, tokens: 3, logits: 2 }], "sent e", tensor(1, 2, 7));
    rows.record(1, [{ request: "x", position: 2, tokens: 2 }], "sent e", tensor(3, 4));
    assert.equal(rootsOf(rows, "x", 4), expected(1, 2, 3, 4));
    const shared = { request: "x", positions: 2 };
    rows.record(1, [{ request: "z", position: 2, tokens: 1, shared }], "sent e", tensor(8));
    assert.equal(rootsOf(rows, "z", 3), expected(1, 2, 8));
  });

  it("is the first word: who says a row otherwise later has said neither, and nothing puts that right", () => {
    for (const [first, second] of [
      [2, 9],
      [9, 2],
    ] as const) {
      const rows = new AnswerRows();
      rows.record(1, [{ request: "x", position: 0, tokens: 2 }], "sent e", tensor(1, first));
      rows.record(1, [{ request: "x", position: 1, tokens: 1 }], "sent e", tensor(second));
      rows.record(1, [{ request: "x", position: 0, tokens: 3 }], "sent e", tensor(1, 2, 3));
      for (const told of [expected(1, 2), expected(1, 9), undefined])
        assert.notEqual(rootsOf(rows, "x", 2), told, `${first}, then ${second}`);
      const shared = { request: "x", positions: 2 };
      rows.record(1, [{ request: "z", position: 2, tokens: 1, shared }], "sent e", tensor(8));
      assert.notEqual(rootsOf(rows, "z", 3), expected(1, 2, 8), "nor for those who begin with it");
      assert.equal(rootsOf(rows, "x", 3, 2), expected(3), "of other rows it says nothing");
    }
  });

  it("is the same however often it is read, and a guess that was read on from is none any more", () => {
    const rows = new AnswerRows();
    rows.record(1, [{ request: "x", position: 0, tokens: 3, logits: 2 }], "sent e", tensor(1, 2, 3));
    rows.record(1, [{ request: "x", position: 3, tokens: 2, logits: 2 }], "sent e", tensor(4, 9));
    rows.record(1, [{ request: "x", position: 0, tokens: 5, logits: 1 }], "sent e", tensor(1, 2, 3, 4, 5));
    assert.equal(rootsOf(rows, "x", 5), expected(1, 2, 3, 4, 5));
    rows.record(1, [{ request: "x", position: 2, tokens: 1 }], "sent e", tensor(7));
    assert.notEqual(rootsOf(rows, "x", 5), expected(1, 2, 7, 4, 5));
  });

  it("is nothing at the head where a guess that it found right is said otherwise: nobody knows by whom", () => {
    const rows = new AnswerRows();
    rows.record(1, [{ request: "x", position: 0, tokens: 3, logits: 3 }], "sent e", tensor(1, 9, 7));
    rows.chose(1, { request: "x", position: 0, tokens: 2 }, tensor(5, 6));
    rows.record(1, [{ request: "x", position: 2, tokens: 1, logits: 1 }], "sent e", tensor(3));
    assert.equal(rootsOf(rows, "x", 3), expected(1, 9, 3), "the one after it was wrong");
    const again = new AnswerRows();
    again.record(1, [{ request: "x", position: 0, tokens: 3, logits: 3 }], "sent e", tensor(1, 9, 7));
    again.chose(1, { request: "x", position: 0, tokens: 2 }, tensor(5, 6));
    again.record(1, [{ request: "x", position: 1, tokens: 2, logits: 1 }], "sent e", tensor(2, 3));
    assert.equal(rootsOf(again, "x", 3), undefined);
    again.record(1, [{ request: "x", position: 0, tokens: 1 }], "sent e", tensor(8));
    assert.notEqual(rootsOf(again, "x", 3), undefined, "what was no guess is said otherwise, whatever else is");
  });

  it("costs what was said, wherever that begins", () => {
    const rows = new AnswerRows(10);
    rows.record(1, [{ request: "x", position: 0, tokens: 2 }], "sent e", tensor(1, 2));
    rows.record(1, [{ request: "far", position: 4_000_000_000, tokens: 1 }], "sent e", tensor(3));
    assert.equal(rootsOf(rows, "x", 2), expected(1, 2), "what others said stays");
    assert.equal(rootsOf(rows, "far", 4_000_000_001), undefined);
    assert.equal(rootsOf(rows, "far", 4_000_000_001, 4_000_000_000), expected(3));
  });

  it("may begin later: logits are there of what was chosen from alone", () => {
    const rows = new AnswerRows();
    rows.record(1, [{ request: "x", position: 2, tokens: 2 }], "sent e", tensor(5, 6));
    assert.equal(rootsOf(rows, "x", 4, 2), expected(5, 6));
    assert.equal(rootsOf(rows, "x", 4), undefined);
  });

  it("is bounded: the oldest answers go first", () => {
    const rows = new AnswerRows(10);
    for (let request = 0; request < 20; request++)
      rows.record(1, [{ request: String(request), position: 0, tokens: 2 }], "sent e", tensor(request, 1));
    assert.equal(rootsOf(rows, "14", 2), undefined);
    assert.equal(rootsOf(rows, "15", 2), expected(15, 1));
  });
});
