import assert from "node:assert/strict";
import { test } from "node:test";
import { SimulatedWorld } from "../../simulation/world/world.ts";
import { Budget } from "./budget.ts";
import { tensorsToo } from "./limits.ts";

const limit = 1 << 20;
const chunk = 1 << 16;

/** Each pair sends as fast as it may for so long; gives what each has sent, and what the relay said of whom. */
async function carry(pairs: readonly { target: string; by: string }[], forMs: number) {
  const simulated = new SimulatedWorld(1);
  const { world } = simulated.start("relay");
  const said: string[] = [];
  const budget = new Budget(world, tensorsToo(limit), (machine, bytesPerSecond, shared) =>
    said.push(`${machine} ${bytesPerSecond}${shared ? " for all" : ""}`),
  );
  const { signal } = new AbortController();
  const sent = pairs.map(() => 0);
  for (const [index, pair] of pairs.entries())
    void (async () => {
      while (simulated.time.nowMs < forMs) {
        await budget.take(chunk, pair, signal);
        sent[index] = (sent[index] as number) + chunk;
      }
    })();
  let during: string[] = [];
  simulated.time.after(forMs, () => {
    during = [...said];
  });
  await simulated.time.run(() => false, forMs + 20_000);
  return { sent, during, afterwards: said.slice(during.length) };
}

test("a machine at its limit is slowed to it, both ends hear that, and hear when it is over", async () => {
  const { sent, during, afterwards } = await carry([{ target: "home", by: "other" }], 30_000);
  const rate = (sent[0] as number) / 30;
  assert.ok(Math.abs(rate - limit / 2) < 0.05 * limit, `${rate} bytes a second`);
  assert.deepEqual(during.sort(), [`home ${limit / 2}`, `other ${limit / 2}`]);
  assert.deepEqual(afterwards.sort(), ["home 0", "other 0"]);
});

test("machines that together want more than the relay gives share it, and are told that it is for all", async () => {
  const pairs = ["a", "b", "c", "d"].map((name) => ({ target: `home ${name}`, by: `other ${name}` }));
  const { sent, during } = await carry(pairs, 30_000);
  const rates = sent.map((bytes) => bytes / 30);
  const total = rates.reduce((sum, rate) => sum + rate, 0);
  assert.ok(Math.abs(total - limit) < 0.05 * limit, `${total} bytes a second`);
  for (const rate of rates) assert.ok(Math.abs(rate - limit / 4) < 0.05 * limit, `${rate} bytes a second`);
  assert.deepEqual(
    during.sort(),
    pairs.flatMap(({ target, by }) => [`${target} ${limit} for all`, `${by} ${limit} for all`]).sort(),
  );
});

test("whoever stays below the limit is not told that it waits", async () => {
  const { world } = new SimulatedWorld(1).start("relay");
  const budget = new Budget(world, tensorsToo(limit), (machine) => assert.fail(`${machine} is slowed`));
  await budget.take(limit / 16, { target: "home", by: "other" }, new AbortController().signal);
  assert.equal(budget.slowed, false);
});
