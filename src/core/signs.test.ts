import assert from "node:assert/strict";
import { it } from "node:test";
import { whileHeard, withSigns } from "./signs.ts";
import { virtualWorld } from "./virtual-world.testing.ts";
import { sleep } from "./world.ts";

it("signs come while pieces are long in coming, and keep whoever reads waiting", async () => {
  const { world, until } = virtualWorld();
  async function* slowly() {
    for (const piece of ["a", "b"]) {
      await sleep(world.timers, 12_000);
      yield piece;
    }
  }
  const heard: string[] = [];
  const reading = (async () => {
    const sent = withSigns(slowly(), "", 5_000, world.timers);
    for await (const piece of whileHeard(sent, "it", 8_000, world.timers)) heard.push(piece);
  })();
  let over = false;
  reading.then(() => {
    over = true;
  });
  await until(() => over);
  assert.deepEqual(heard, ["", "", "a", "", "", "b"]);
});

it("a stream that hangs is given up, and what is read from is told", async () => {
  const { world, until } = virtualWorld();
  let told = false;
  const hanging: AsyncIterable<string> = {
    [Symbol.asyncIterator]: () => ({
      next: () => new Promise(() => {}),
      return: async () => {
        told = true;
        return { done: true, value: undefined };
      },
    }),
  };
  let problem = "";
  (async () => {
    for await (const _ of whileHeard(hanging, "the machine of the head", 30_000, world.timers));
  })().catch((error: Error) => {
    problem = error.message;
  });
  await until(() => problem !== "");
  assert.equal(problem, "the machine of the head has said nothing for 30 s");
  assert.ok(told);
});

it("what breaks breaks for the reader as it is", async () => {
  const { world } = virtualWorld();
  async function* broken() {
    yield 1;
    throw new Error("gone");
  }
  const heard: number[] = [];
  await assert.rejects(async () => {
    for await (const piece of withSigns(broken(), 0, 5_000, world.timers)) heard.push(piece);
  }, /gone/);
  assert.deepEqual(heard, [1]);
});
