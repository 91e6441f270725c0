import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { hasCode } from "../../core/errors.ts";
import type { KeyId } from "../../core/ids.ts";
import { ManualTimers } from "../connections/timers.testing.ts";
import { Desk } from "./desk.ts";
import { guestLimitsDefault } from "./limits.ts";
import { Shares, shareOf } from "./shares.ts";

describe("shares", () => {
  it("are counted for each holder and in all, and nothing is taken by what is refused", () => {
    const shares = new Shares(3, 5);
    assert.ok(shares.take("a", 3));
    assert.ok(!shares.take("a"));
    assert.ok(!shares.take("b", 3), "in all");
    assert.ok(shares.take("b", 2));
    assert.ok(!shares.take(undefined), "in all");
    shares.give("a", 2);
    assert.ok(shares.take(undefined, 2), "who has no share of its own takes what is there");
    assert.equal(shares.total, 5);
    for (const [holder, amount] of [
      ["a", 1],
      ["b", 2],
      [undefined, 2],
    ] as const)
      shares.give(holder, amount);
    assert.equal(shares.total, 0);
    assert.ok(shares.take("a", 3));
  });

  it("are those of an address, of a network where one customer has many, and of nobody on this machine", () => {
    assert.equal(shareOf("8.8.8.8"), "8.8.8.8");
    assert.equal(shareOf("2606:4700:1:2:3:4:5:6"), "2606:4700:1:2::/64");
    assert.equal(shareOf("2606:4700:1:2::6"), "2606:4700:1:2::/64");
    assert.equal(shareOf("2606:4700::6"), "2606:4700:0:0::/64");
    assert.equal(shareOf("2606:4700::"), "2606:4700:0:0::/64");
    assert.equal(shareOf("fe80::1%eth0"), "fe80:0:0:0::/64");
    assert.equal(shareOf("127.0.0.1"), undefined);
    assert.equal(shareOf("::1"), undefined);
  });
});

describe("the desk", () => {
  const limits = { ...guestLimitsDefault, requestsPerAddress: 4, requestsPerKey: 2, requestsMax: 6, bytesPerKey: 10 };
  const refused = (run: () => unknown) => assert.throws(run, (error: unknown) => hasCode(error, "resource_exhausted"));
  const key = (id: string, address = "8.8.8.8") => ({ id: id as KeyId, address });

  it("lets in so many of a key, of an address whatever keys it shows, and in all", () => {
    const desk = new Desk(new ManualTimers(), limits);
    const visits = [desk.enter(key("a"), "/"), desk.enter(key("a"), "/")];
    refused(() => desk.enter(key("a", "1.1.1.1"), "/"));
    visits.push(desk.enter(key("b"), "/"), desk.enter({ address: "8.8.8.8" }, "/"));
    refused(() => desk.enter(key("c"), "/"));
    visits.push(desk.enter(key("c", "127.0.0.1"), "/"), desk.enter({ address: "127.0.0.1" }, "/"));
    refused(() => desk.enter({ address: "127.0.0.1" }, "/"));
    for (const visit of visits) {
      visit.leave();
      visit.leave();
    }
    assert.deepEqual(desk.load, { requests: 0, bytes: 0 });
  });

  it("counts a request for a key that it shows later, too, beside the one that its connection proved", () => {
    const desk = new Desk(new ManualTimers(), limits);
    const one = desk.enter({ address: "127.0.0.1" }, "/");
    const other = desk.enter(key("a"), "/");
    assert.ok(one.hold(6));
    one.countFor("shown");
    one.countFor("shown");
    assert.ok(other.hold(6));
    refused(() => other.countFor("shown"));
    assert.ok(other.hold(-3));
    other.countFor("shown");
    other.countFor("");
    assert.ok(!one.hold(2), "together they hold too much");
    const third = desk.enter(key("b"), "/");
    refused(() => third.countFor("shown"));
    for (const visit of [one, other, third]) visit.leave();
    const [next, last] = [desk.enter(key("a"), "/"), desk.enter(key("a"), "/")];
    for (const visit of [next, last]) visit.countFor("shown");
    assert.ok(next.hold(10));
  });

  it("counts bytes while they lie in memory, of all requests of a key", () => {
    const desk = new Desk(new ManualTimers(), limits);
    const one = desk.enter(key("a"), "/");
    const other = desk.enter(key("a"), "/");
    assert.ok(one.hold(6));
    assert.ok(!other.hold(6));
    assert.ok(one.hold(-3));
    assert.ok(other.hold(6));
    one.leave();
    assert.equal(desk.load.bytes, 6);
    assert.ok(!one.hold(1), "what is over holds nothing");
    other.leave();
    assert.equal(desk.load.bytes, 0);
  });
});
