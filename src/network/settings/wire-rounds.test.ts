import assert from "node:assert/strict";
import { test } from "node:test";
import type { ToldRound } from "../rounds.ts";
import { roundsFromWire, roundToWire } from "./wire-rounds.ts";

const open: ToldRound = {
  round: 3,
  lanes: [
    {
      lane: 0,
      steps: 5,
      class: "native-x",
      samples: [
        [10, 4],
        [30, 1],
      ],
    },
    { lane: 2, steps: 1, class: "portable-3", samples: [[14, 1]] },
  ],
};

test("a round that is told arrives as it was, open or closed", () => {
  for (const round of [open, { ...open, counted: [2] }])
    assert.deepEqual(roundsFromWire([roundToWire(round)]), [round]);
});

test("what no orchestrator that is right would tell is refused before anything is kept of it", () => {
  const wire = roundToWire({ ...open, counted: [2] });
  const [lane] = wire.lanes;
  const wrong = {
    "in which other lanes count": [{ ...wire, counted: [1] }],
    "other lanes count than learn": [{ ...wire, counted: [] }],
    "lanes count than learn": [{ ...wire, counted: [2, 2] }],
    "a lane of a round": [{ ...wire, lanes: [{ ...lane!, samples: [1n] }], counted: [0] }],
    "of 65 lanes": [{ ...wire, lanes: Array.from({ length: 65 }, () => lane!) }],
    "65 rounds at once": Array.from({ length: 65 }, () => wire),
    "a number of": [{ ...wire, round: 1n << 60n }],
  };
  for (const [words, rounds] of Object.entries(wrong))
    assert.throws(() => roundsFromWire(rounds), new RegExp(`what was told of rounds is not possible.*${words}`), words);
});
