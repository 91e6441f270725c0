import assert from "node:assert/strict";
import { test } from "node:test";
import { DcnrError } from "../core/errors.ts";
import { base32 } from "../core/keys.ts";
import { pnodeGate } from "./gate.ts";
import type { Orchestrators } from "./orchestrators.ts";
import type { Resolver } from "./resolver.ts";
import { type Signed, Vouching } from "./vouching.ts";

const keyOf = (number: number) => base32(new Uint8Array(32).fill(number)) as never;
const caller = (number: number) => ({ id: keyOf(number), address: "192.0.2.7" });

function stage(answer: (pnode: string) => Promise<boolean>, signed?: Signed) {
  const now = { ms: 0 };
  const asked: string[] = [];
  const known = {
    networkKey: undefined,
    isKnownBy: () => true,
    call: async (_: unknown, { pnode }: { pnode: string }) => {
      asked.push(pnode);
      return { member: await answer(pnode) };
    },
  };
  const clock = { monotonicMs: () => now.ms, wallMs: () => now.ms };
  const signal = new AbortController().signal;
  const orchestrators = known as never as Orchestrators;
  const vouching = new Vouching(orchestrators, clock, signal, signed);
  return { gate: pnodeGate({} as Resolver, orchestrators, vouching), vouching, asked, now };
}

test("a relay asks for each machine once in a while, for strangers too, however often they knock", async () => {
  const { gate, asked, now } = stage(async (pnode) => pnode === keyOf(1));
  for (let times = 0; times < 100; times++) {
    await gate.network(caller(1));
    await assert.rejects(async () => gate.network(caller(2)), { code: "permission_denied" });
  }
  assert.deepEqual(asked, [keyOf(1), keyOf(2)]);
  now.ms += 5_000;
  await assert.rejects(async () => gate.network(caller(2)), { code: "permission_denied" });
  assert.equal(asked.length, 3);
});

test("many strangers at once cost orchestrators a few questions at a time", async () => {
  const open = Promise.withResolvers<boolean>();
  const { gate, asked } = stage(() => open.promise);
  const knocks = Array.from({ length: 50 }, (_, index) => Promise.resolve(gate.network(caller(index))));
  const settled = Promise.allSettled(knocks);
  await new Promise(setImmediate);
  assert.equal(asked.length, 16);
  open.resolve(true);
  assert.equal((await settled).filter(({ status }) => status === "fulfilled").length, 16);
  await gate.network(caller(49));
});

test("a relay goes on while no orchestrator is there: for those whom the network's key has signed for, and nobody else", async () => {
  let isThere = false;
  const answer = async () => {
    if (!isThere) throw new DcnrError("unavailable", "nobody listens there");
    return false;
  };
  const signed = { isCrew: (id: string) => id === keyOf(1), isPermitted: (id: string) => id === keyOf(2) };
  const { gate, now } = stage(answer, signed);
  await gate.network(caller(1));
  await gate.network(caller(2));
  await assert.rejects(async () => gate.network(caller(3)), { code: "unavailable" });
  // An orchestrator's word is the last one.
  isThere = true;
  now.ms += 60_000;
  await assert.rejects(async () => gate.network(caller(1)), { code: "permission_denied" });
});

test("one that was sent away is not let in by what was said of it before", async () => {
  let isMember = true;
  const { gate, vouching } = stage(async () => isMember);
  await gate.network(caller(1));
  isMember = false;
  await gate.network(caller(1));
  assert.equal(await vouching.isStill(keyOf(1)), false);
  await assert.rejects(async () => gate.network(caller(1)), { code: "permission_denied" });
  isMember = true;
  assert.equal(await vouching.isStill(keyOf(1)), true);
  await gate.network(caller(1));
});
