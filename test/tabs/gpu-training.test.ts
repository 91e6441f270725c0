// A tab that lends its GPU trains: alone with webgpu numerics, with losses near portable's and the same bits twice; its owner may keep
// the GPU. The GPU is one in software.

import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import type { Browser } from "playwright-core";
import type { Client } from "../../src/client/client.ts";
import type { Session } from "../../src/protocol/gen/dcnr/v1/session_pb.ts";
import { launchBrowser } from "../browser/browser.ts";
import { ended, smallNetwork } from "../small-training.ts";
import { settings, withFleet } from "./fleet.ts";
import { openTab } from "./tabs.ts";

let browser: Browser;
before(async () => {
  browser = await launchBrowser({ gpu: true });
});
after(() => browser?.close());

async function trained(client: Client, numerics: string): Promise<Session> {
  const { id } = await client.sessions.create({
    ...{ ...settings, network: "small", numerics, steps: 6n, checkpointEvery: 3, spread: 1 },
  });
  const session = await ended(client, id);
  assert.equal(session.status, "done", session.reason);
  return session;
}

test("a tab trains on its GPU: losses are near portable's, and the bits are the same in another visit", async (context) => {
  const roots = new Set<string>();
  for (const visit of ["first", "second"])
    await withFleet(async ({ client, orchestrator }) => {
      await client.networks.create(smallNetwork, { id: "small" });
      const { page } = await openTab(browser, orchestrator.address, visit);
      const lent = (await page.locator("#gpu-lent").textContent()) ?? "";
      if (/gives pages no GPU/.test(lent)) return context.skip(lent);
      assert.match(lent, /google swiftshader/);
      const onGpu = await trained(client, "webgpu");
      assert.match(onGpu.numericsClass, /^webgpu-[0-9a-f]{12}$/);
      roots.add(onGpu.stepRoot);
      if (visit === "first") {
        const onCpu = await trained(client, "portable");
        assert.equal(onGpu.loss.toFixed(4), onCpu.loss.toFixed(4));
      }
      await page.close();
    });
  assert.ok(roots.size <= 1);
});

test("a tab whose owner keeps the GPU lends its processor alone, and says so", async () => {
  await withFleet(async ({ client, orchestrator }) => {
    const { page } = await openTab(browser, orchestrator.address, "keeper", { gpu: false });
    assert.equal(await page.locator("#gpu-lent").textContent(), "none: its owner keeps it");
    const nodes = await client.fleet.pnodes();
    const own = nodes.find(({ name }) => name === "keeper")?.capabilities;
    assert.deepEqual(own?.numerics.map(({ engine }) => engine).sort(), ["exact", "portable"]);
    assert.equal(own?.gpus.length, 0);
    await page.close();
  });
});
