import { strict as assert } from "node:assert";
import { describe, it } from "node:test";
import type { EdgeId } from "../../core/ids.ts";
import type { MessageName } from "../../vnode/names.ts";
import { Agreement } from "./agreement.ts";

const name: MessageName = { step: 3, microbatch: 0, edge: "a>b" as EdgeId, direction: "forward" };
const said = (by: string, hash: string) => ({ name, by, hash });

describe("a message that several owners send", () => {
  it("is taken once all of them have said the same, and its bytes travel once", () => {
    const agreement = new Agreement<string>();
    assert.deepEqual(agreement.hear(said("p", "h"), undefined, 2), { kind: "wanted" });
    assert.deepEqual(agreement.hear(said("p", "h"), "bytes of p", 2), { kind: "waiting" });
    assert.deepEqual(agreement.hear(said("p", "h"), undefined, 2), { kind: "waiting" }, "one counts once");
    assert.deepEqual(agreement.hear(said("q", "h"), undefined, 2), { kind: "agreed", content: "bytes of p" });
  });

  it("is what most say, whoever was first: a liar among three passes nothing on", () => {
    for (const order of [
      ["lie", "h", "h"],
      ["h", "lie", "h"],
      ["h", "h", "lie"],
    ]) {
      const agreement = new Agreement<string>();
      const heard = order.map((hash, i) => agreement.hear(said(`p${i}`, hash), `bytes of ${hash}`, 3));
      const taken = heard.flatMap((one) => (one.kind === "agreed" ? [one.content] : []));
      assert.deepEqual(taken, ["bytes of h"], order.join());
      const unused = heard.flatMap((one) => ("unused" in one && one.unused ? [one.unused] : []));
      assert.equal(taken.length + unused.length, 3, "every content is taken or given back");
    }
  });

  it("is the same for every receiver where two contradict each other, so that only their VNode is in doubt", () => {
    const outcome = (...order: readonly [string, string][]) => {
      const agreement = new Agreement<string>();
      return order.map(([by, hash]) => agreement.hear(said(by, hash), hash, 2)).at(-1);
    };
    assert.equal((outcome(["p", "aaa"], ["q", "bbb"]) as { content: string }).content, "aaa");
    assert.equal((outcome(["q", "bbb"], ["p", "aaa"]) as { content: string }).content, "aaa");
    const agreement = new Agreement<string>();
    agreement.hear(said("p", "aaa"), "a", 3);
    assert.deepEqual(agreement.contradicted(said("q", "bbb")), { by: "p", hash: "aaa" });
  });

  it("asks for bytes that it let go when others agree on them after all", () => {
    const agreement = new Agreement<string>();
    agreement.hear(said("liar", "lie"), "bytes of the lie", 3);
    assert.deepEqual(agreement.hear(said("p", "h"), undefined, 3), { kind: "waiting" });
    assert.deepEqual(agreement.hear(said("q", "h"), undefined, 3), { kind: "wanted" });
    const heard = agreement.hear(said("q", "h"), "bytes of h", 3);
    assert.deepEqual(heard, { kind: "agreed", content: "bytes of h", unused: "bytes of the lie" });
  });

  it("goes on with those who are left when an owner is lost", () => {
    const agreement = new Agreement<string>();
    agreement.hear(said("p", "h"), "bytes", 2);
    assert.deepEqual(agreement.hear(said("p", "h"), undefined, 1), { kind: "agreed", content: "bytes" });
    agreement.hear({ ...said("p", "h"), name: { ...name, step: 4 } }, "more", 2);
    assert.deepEqual(agreement.forgetBelow(4), []);
    assert.deepEqual(agreement.forgetBelow(5), ["more"]);
  });
});
