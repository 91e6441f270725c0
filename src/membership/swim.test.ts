import assert from "node:assert/strict";
import { test } from "node:test";
import type { Accusation, Member, News } from "./member.ts";
import { Roster } from "./roster.ts";
import { Suspicions } from "./suspicions.ts";
import { Swim } from "./swim.ts";
import { membershipTimings } from "./timings.ts";

function member(id: string, sequence = 1): Member {
  const place = id.charCodeAt(0) * 1_000;
  return {
    ...({} as Member),
    id,
    sequence,
    place,
    routes: [`${id}:1`],
    roles: [],
    bytes: 300,
    incarnation: "1",
    leaving: false,
  };
}

/** One that knows the others, all of them alive. */
function swimOf(id: string, others: readonly Member[]): Swim {
  const roster = new Roster();
  for (const one of others) roster.set(one, "alive", 0);
  return new Swim({
    ...{ renew: (sequence) => member(id, sequence), sequence: 1, roster, timings: membershipTimings },
    uniform: () => 0.5,
  });
}

const suspect = (id: string, sequence = 1): Accusation => ({ kind: "suspect", id, sequence, by: 7 });
const about = (news: readonly News[], id: string) =>
  news.flatMap((one) => (one.kind === "record" && one.member.id === id ? [one.member.sequence] : []));

test("whoever accuses one that has answered for itself since is told so, and nobody else", () => {
  const swim = swimOf("a", [member("b"), member("c", 4), member("d")]);
  swim.step({ kind: "heard", nowMs: 0, from: "b", news: [suspect("c", 3)] });
  assert.deepEqual(about(swim.newsFor("d"), "c"), []);
  assert.deepEqual(about(swim.newsFor("b"), "c"), [4]);
  assert.deepEqual(about(swim.newsFor("b"), "c"), [], "once");
  swim.step({ kind: "heard", nowMs: 0, from: "b", news: [suspect("c", 4)] });
  assert.deepEqual(about(swim.newsFor("b"), "c"), [], "it is accused of what it said last");
});

test("partners are asked about a suspect before its time is up, in the words in which it was told", () => {
  const suspicions = new Suspicions(membershipTimings);
  suspicions.accuse(suspect("c"), 1_000, 0);
  assert.deepEqual(suspicions.questioned(1_000, 4), []);
  assert.deepEqual(suspicions.questioned(12_000, 4), [suspect("c")]);
  suspicions.drop("c");
  assert.deepEqual(suspicions.questioned(12_000, 4), []);
});

test("of many suspects those are asked about first whose time is up first", () => {
  const suspicions = new Suspicions(membershipTimings);
  const ids = ["b", "c", "d", "e", "f", "g"];
  for (const [index, id] of ids.entries()) suspicions.accuse(suspect(id), 1_000, index * 100);
  assert.deepEqual(
    suspicions.questioned(13_000, 4).map(({ id }) => id),
    ids.slice(0, 4),
  );
});
