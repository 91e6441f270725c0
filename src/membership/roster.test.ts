import assert from "node:assert/strict";
import { test } from "node:test";
import { simulatedIdentity } from "../../simulation/world/keys.ts";
import { bucketsFor, differing, folded } from "./digests.ts";
import { isHere, type Member } from "./member.ts";
import { seal } from "./records.ts";
import { Roster } from "./roster.ts";
import { answerSync, Comparison } from "./sync.ts";

function memberOf(index: number, sequence = 1): Member {
  const id = `member-${index}`;
  const facts = { name: id, routes: ["h:1"], roles: ["pnode" as const], numerics: [], cores: 1, memoryBytes: 1 };
  const self = { id, incarnation: "1", identity: simulatedIdentity(id) };
  return seal(self, simulatedIdentity("network").id, { ...facts, gflops: 1, load: 0, region: "" }, sequence, {});
}

const members = Array.from({ length: 60 }, (_, index) => memberOf(index));

/** Some alive, some dead, some forgotten; once on a base that others share. */
function rosters(): [Roster, Roster] {
  const base = new Roster();
  for (const member of members.slice(0, 40)) base.set(member, "alive", 0);
  const layered = new Roster(base);
  const plain = new Roster();
  for (const member of members.slice(0, 40)) plain.set(member, "alive", 0);
  for (const roster of [layered, plain]) {
    for (const member of members.slice(40)) roster.set(member, "alive", 1);
    for (const index of [3, 17, 45]) roster.set(members[index] as Member, "dead", 2);
    for (const index of [5, 50]) roster.forget((members[index] as Member).id);
    roster.set(memberOf(7, 9), "alive", 3);
  }
  return [layered, plain];
}

test("a roster on a base knows the same as one that stands alone", () => {
  const [layered, plain] = rosters();
  const list = (roster: Roster) =>
    [...roster.all()].map(({ member, standing }) => `${member.id} ${member.sequence} ${standing}`).sort();
  assert.deepEqual(list(layered), list(plain));
  assert.equal(layered.here, 55);
  assert.equal(layered.here, plain.here);
  assert.deepEqual([...layered.dead].sort(), [...plain.dead].sort());
  assert.deepEqual(layered.digests, plain.digests);
});

test("successors in the ring are those that a sorted list names", () => {
  for (const roster of rosters())
    for (const from of [0, 123_456_789, 2 ** 31, 2 ** 32 - 1]) {
      const sorted = [...roster.all()]
        .filter(({ standing }) => isHere(standing))
        .sort((a, b) => ((a.member.place - from) >>> 0) - ((b.member.place - from) >>> 0));
      const found = roster.successors(from, 4, ({ standing }) => isHere(standing));
      assert.deepEqual(
        found.map(({ member }) => member.id),
        sorted.slice(0, 4).map(({ member }) => member.id),
      );
    }
});

test("buckets hold everybody once", () => {
  for (const roster of rosters()) {
    const ids = Array.from({ length: 16 }, (_, bucket) =>
      [...roster.inBucket(bucket, 16)].map(({ member }) => member.id),
    );
    assert.deepEqual(ids.flat().sort(), [...roster.all()].map(({ member }) => member.id).sort());
  }
});

test("digests differ in the bucket of whoever is known differently, and the dead leave no trace", () => {
  const [roster, same] = rosters();
  const count = bucketsFor(60);
  assert.deepEqual(differing(folded(roster.digests, count), folded(same.digests, count)), []);
  same.set(memberOf(20, 2), "alive", 5);
  const bucket = (members[20] as Member).place >>> (32 - Math.log2(count));
  assert.deepEqual(differing(folded(roster.digests, count), folded(same.digests, count)), [bucket]);
  const empty = new Roster();
  empty.set(members[0] as Member, "dead", 0);
  assert.ok(empty.digests.every((digest) => digest === 0));
});

test("two rosters that compare know the same afterwards, the newer of each", () => {
  const [one, other] = rosters();
  const [self, their] = [memberOf(101), memberOf(102)];
  one.set(memberOf(20, 2), "alive", 5);
  other.set(memberOf(21, 4), "alive", 5);
  other.set(members[30] as Member, "dead", 6);
  one.set(members[5] as Member, "alive", 6);
  const hear = (roster: Roster, news: ReturnType<typeof answerSync>["news"]) => {
    for (const item of news) {
      const known = roster.get(item.kind === "record" ? item.member.id : item.id);
      if (item.kind === "record" && (known?.member.sequence ?? 0) < item.member.sequence)
        roster.set(item.member, "alive", 9);
      if (item.kind === "dead" && known?.member.sequence === item.sequence) roster.set(known.member, "dead", 9);
    }
  };
  const comparison = new Comparison(one, () => self);
  let turns = 0;
  for (let ask: ReturnType<Comparison["first"]> | undefined = comparison.first(); ask !== undefined; turns++) {
    hear(other, ask.news);
    const answer = answerSync(other, their, ask);
    hear(one, answer.news);
    ask = comparison.next(ask, answer);
  }
  assert.ok(turns <= 4, `${turns} turns`);
  one.forget(their.id);
  other.forget(self.id);
  assert.deepEqual(one.digests, other.digests);
  assert.equal(one.get("member-30")?.standing, "dead");
  assert.equal(other.get("member-5")?.standing, "alive");
});
