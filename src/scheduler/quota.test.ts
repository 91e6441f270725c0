import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { book, decided, job, minute, queue, running, started } from "./decide.testing.ts";
import { node, seeded } from "./placement.testing.ts";
import { type Amounts, claimed, type QuotaBook, type QuotaClaim, Usage, unclaimed } from "./quota.ts";

const gpus = (count: number): Amounts => ({ cores: 0, gpus: count, memoryBytes: 0, jobs: 1 });
const claim = (name: string, count: number, owner = "anna", epoch = 1): QuotaClaim => ({
  queue: name,
  owner,
  epoch,
  amounts: gpus(count),
});

describe("quotas", () => {
  it("bound a queue and each owner in it; who has a bound of its own has no other", () => {
    const own = book([queue("q", { nominal: { gpus: 10 }, ownerMax: { gpus: 2 }, owners: { bert: { gpus: 6 } } })]);
    const usage = new Usage(own);
    assert.equal(usage.refusal(claim("q", 3))?.whose, "owner");
    assert.equal(usage.refusal(claim("q", 6, "bert")), undefined);
    assert.equal(usage.refusal(claim("q", 7, "bert"))?.limit, 6);
    usage.add(claim("q", 9, "carl"));
    assert.equal(usage.refusal(claim("q", 2))?.whose, "queue");
    assert.equal(new Usage(book([queue("q")])).refusal(claim("q", 1e9)), undefined, "without a quota nobody is bound");
  });

  it("lend what is idle up to both sides' bounds, and say who has to give back", () => {
    const lab = (lendMax: number, borrowMax: number) =>
      book([
        queue("day", { nominal: { gpus: 4 }, lendMax: { gpus: lendMax } }),
        queue("night", { nominal: { gpus: 2 }, borrowMax: { gpus: borrowMax } }),
      ]);
    assert.equal(new Usage(lab(4, 4)).refusal(claim("night", 6)), undefined);
    assert.equal(new Usage(lab(1, 4)).refusal(claim("night", 4))?.whose, "cohort");
    assert.equal(new Usage(lab(4, 1)).refusal(claim("night", 4))?.whose, "queue");
    const lent = new Usage(lab(4, 4));
    lent.add(claim("night", 6));
    const refusal = lent.refusal(claim("day", 1));
    assert.deepEqual([refusal?.whose, refusal?.reclaims], ["cohort", true]);
  });

  it("are claimed whole and given back by epoch, and never passed in random books", () => {
    for (let seed = 1; seed <= 50; seed++) {
      const random = seeded(seed);
      const pick = (most: number) => Math.floor(random() * most);
      let now: QuotaBook = book([
        queue("a", { nominal: { gpus: 5 } }),
        queue("b", { nominal: { gpus: 3 }, lendMax: { gpus: 1 } }),
      ]);
      for (let turn = 0; turn < 40; turn++) {
        if (random() < 0.6)
          now = claimed(now, new Map([[`j${turn}`, claim(random() < 0.5 ? "a" : "b", 1 + pick(4))]])).book ?? now;
        else now = unclaimed(now, new Map([[`j${pick(turn + 1)}`, 1]])) ?? now;
        const used = (name: string) =>
          Object.values(now.claims).reduce((sum, one) => sum + (one.queue === name ? one.amounts.gpus : 0), 0);
        assert.ok(used("a") + used("b") <= 8, `seed ${seed}`);
        assert.ok(used("a") <= 6, `seed ${seed}: b lends one only`);
      }
    }
    const one = claimed(book([queue("q")]), new Map([["j", claim("q", 1, "anna", 2)]])).book as QuotaBook;
    assert.equal(unclaimed(one, new Map([["j", 1]])), undefined, "what was claimed since stays");
    assert.equal(
      claimed(one, new Map([["j", claim("q", 1, "anna", 1)]])).jobs.size,
      0,
      "an older claim does not replace it",
    );
  });
});

describe("a pass with quotas", () => {
  const nodes = [node("p")];
  const lab = book([queue("day", { nominal: { jobs: 2 } }), queue("night", { nominal: { jobs: 1 } })], {
    a: { ...claim("night", 0), amounts: { ...gpus(0) } },
    b: { ...claim("night", 0), amounts: { ...gpus(0) } },
  });
  const one = (id: string, name: string, submittedMs = 0) => job(id, 1, { queue: name, submittedMs });

  it("starts no more than is left, borrowed or own", () => {
    const books = new Map([["lab", lab]]);
    const pending = [one("x", "day", 1), one("y", "day", 2), one("z", "night", 3)];
    const decisions = decided({ nodes, books, pending });
    assert.deepEqual(started(decisions), ["x"]);
    assert.equal(decisions.waits.get("y")?.reason.code, "quota");
  });

  it("asks the youngest borrower to give back what is another queue's own, once it ran long enough", () => {
    const books = new Map([
      ["lab", book([queue("day", { nominal: { jobs: 1 } }), queue("night", { nominal: { jobs: 1 } })], lab.claims)],
    ]);
    const borrowers = [
      running("a", [], { queue: "night", sinceMs: 0 }),
      running("b", [], { queue: "night", sinceMs: 10 * minute }),
    ];
    const pending = [one("x", "day")];
    assert.deepEqual(decided({ nodes, books, pending, running: borrowers, nowMs: 60 * minute }).preempts, [
      { victim: "b", for: "x" },
    ]);
    assert.deepEqual(decided({ nodes, books, pending, running: borrowers, nowMs: 20 * minute }).preempts, []);
  });

  it("lets nobody pass whoever has waited too long for a quota", () => {
    const full = book([queue("q", { nominal: { cores: 4 } })], {
      r: { queue: "q", owner: "bert", epoch: 1, amounts: { cores: 2, gpus: 0, memoryBytes: 0, jobs: 1 } },
    });
    const large = job("large", 4, { queue: "q", submittedMs: 0 });
    const small = job("small", 1, { queue: "q", submittedMs: 5 });
    const queueOf = (nowMs: number) =>
      decided({ nodes, books: new Map([["q", full]]), pending: [large, small], nowMs });
    assert.deepEqual(started(queueOf(minute)), ["small"]);
    const late = queueOf(7 * 60 * minute);
    assert.deepEqual(started(late), []);
    assert.deepEqual(late.waits.get("small")?.reason, { code: "behind", job: "large" });
  });
});
