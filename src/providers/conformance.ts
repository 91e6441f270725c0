// What every provider must do, whatever runs its machines: the whole test of a kind, against its fake or the real thing.

import assert from "node:assert/strict";
import { it } from "node:test";
import type { Offer, Provider, Seen, Wanted } from "./provider.ts";

export interface ProviderStage {
  readonly provider: Provider;
  /** The same cluster, as a provider of the same name in another network sees it. */
  readonly foreign: Provider;
  /** As the cluster itself does, or whoever pulls the plug. */
  kill(seen: Seen): Promise<void>;
  close(): Promise<void>;
}

const patienceMs = 60_000;

async function until(what: string, holds: () => Promise<boolean>): Promise<void> {
  const endMs = Date.now() + patienceMs;
  while (!(await holds())) {
    assert.ok(Date.now() < endMs, `still not: ${what}`);
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
}

function wanted(batch: string, count: number): Wanted[] {
  return Array.from({ length: count }, (_, index) => ({
    instance: `${batch}-${index}`,
    // With everything that a shell could stumble over.
    link: `dcnr://127.0.0.1:7700/key?invite=a&name=it's $(touch /tmp/never) "so"`,
    name: `test-${batch}-${index}`,
  }));
}

const isRunning = ({ state }: Seen) => state === "running";

export function providerConformance(open: () => Promise<ProviderStage>): void {
  const staged = async (run: (stage: ProviderStage, offer: Offer) => Promise<void>) => {
    const stage = await open();
    const { provider } = stage;
    try {
      await run(stage, (await provider.offers())[0] as Offer);
    } finally {
      await until("all is gone", async () => {
        const left = (await provider.list()).filter(({ instance }) => instance.startsWith("cnf"));
        await provider.stop(left, true);
        return left.every(({ state }) => state === "ended");
      });
      await stage.close();
    }
  };
  const running = async (provider: Provider, batch: string, count: number): Promise<Seen[]> => {
    const own = async () => (await provider.list()).filter(({ instance }) => instance.startsWith(`${batch}-`));
    await until(`${count} of ${batch} run`, async () => (await own()).filter(isRunning).length === count);
    return own();
  };

  it("tells in sentences what it looked at, and has offers that make sense", () =>
    staged(async ({ provider }, offer) => {
      const found = await provider.test();
      assert.deepEqual(
        found.filter(({ isWell }) => !isWell),
        [],
      );
      assert.ok(found.length >= 1 && found.every(({ sentence }) => sentence.length > 10));
      assert.ok(offer.cores >= 1 && offer.memoryBytes > 0 && offer.most >= 1 && offer.pricePerHour >= 0);
      assert.ok(offer.bootSeconds > 0);
    }));

  it("starts a batch, finds each of it by its id, tells it apart from other networks', and ends it", () =>
    staged(async ({ provider, foreign }, offer) => {
      await provider.start(offer, wanted("cnfaaa", 2));
      const seen = await running(provider, "cnfaaa", 2);
      assert.deepEqual(seen.map(({ instance }) => instance).sort(), ["cnfaaa-0", "cnfaaa-1"]);
      assert.deepEqual(
        (await foreign.list()).filter(({ instance }) => instance.startsWith("cnfaaa")),
        [],
        "another network's provider does not see them",
      );
      const [first, second] = seen as [Seen, Seen];
      await provider.stop([first]);
      await until("the first has ended", async () => {
        const now = (await provider.list()).find(({ instance }) => instance === first.instance);
        return now === undefined || now.state === "ended";
      });
      assert.equal(
        (await running(provider, "cnfaaa", 1)).find(isRunning)?.instance,
        second.instance,
        "the other one goes on",
      );
      assert.equal(typeof (await provider.logs(second)), "string");
    }));

  it("sees that one was killed by its cluster, and is not disturbed by ending what is gone", () =>
    staged(async ({ provider, kill }, offer) => {
      await provider.start(offer, wanted("cnfbbb", 1));
      const [one] = (await running(provider, "cnfbbb", 1)) as [Seen];
      await kill(one);
      await until("it is seen as ended", async () =>
        (await provider.list()).every(({ instance, state }) => instance !== one.instance || state === "ended"),
      );
      await provider.stop([one]);
      const left = (await provider.list()).filter(({ instance }) => instance === one.instance);
      await provider.stop(left);
      await provider.stop(left);
    }));
}
