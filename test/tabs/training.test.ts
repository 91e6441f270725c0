// The promise, with tabs: a process and three pages of a browser train together. One page is closed and one is killed in
// mid-step, one is frozen for five seconds, and the step root is that of the process alone.

import assert from "node:assert/strict";
import { test } from "node:test";
import type { Client } from "../../src/client/client.ts";
import { browsersHere, launchBrowser } from "../browser/browser.ts";
import { ended, smallNetwork } from "../small-training.ts";
import { settings, steps, withFleet } from "./fleet.ts";
import { openTab, type Tab } from "./tabs.ts";

const frozenMs = 5_000;

const sleep = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms));

async function untilStep(client: Client, session: string, step: number): Promise<void> {
  for (;;) {
    const { step: now, status, reason } = await client.sessions.get(session);
    if (Number(now) >= step) return;
    assert.notEqual(status, "failed", reason);
    await sleep(100);
  }
}

/** Those of this machine where they decide: a minute of two processors each. */
for (const { name, launch } of browsersHere().filter(({ decides }) => decides))
  test(`a process and three tabs of ${name} train to the root of the process alone, whatever happens to the tabs`, async () => {
    const alone = await withFleet(async ({ client }) => {
      const { id } = await client.sessions.create({ ...settings, spread: 1 });
      const session = await ended(client, id);
      assert.equal(session.status, "done", session.reason);
      return session.stepRoot;
    });
    const browser = await launch();
    try {
      await withFleet(async ({ client, orchestrator }) => {
        const tabs: Tab[] = [];
        for (const tree of ["oak", "elm", "ash"]) tabs.push(await openTab(browser, orchestrator.address, tree));
        const [oak, elm, ash] = tabs as [Tab, Tab, Tab];
        assert.ok(
          tabs.every(({ processes }) => processes.length > 0),
          "every tab has a process of its own",
        );
        const { id } = await client.sessions.create(settings);
        await untilStep(client, id, 2);
        await Promise.all(tabs.map(({ page }) => page.getByText(/^Computes/).waitFor({ timeout: 60_000 })));
        await untilStep(client, id, 8);
        await oak.page.close();
        await untilStep(client, id, 20);
        await elm.signal("SIGKILL");
        await untilStep(client, id, 32);
        await ash.signal("SIGSTOP");
        await sleep(frozenMs);
        await ash.signal("SIGCONT");
        const session = await ended(client, id);
        assert.equal(session.status, "done", session.reason);
        assert.equal(session.step, BigInt(steps));
        assert.equal(session.stepRoot, alone);
        const pieces = await ash.page.locator("#visit").textContent();
        assert.match(pieces ?? "", /^[1-9]\d* pieces of work/, "the tab that came back has contributed");
      });
    } finally {
      await browser.close();
    }
  });

test("tabs repeat what a process computed in a session that is checked, sign what comes out, and agree", async () => {
  const browser = await launchBrowser();
  try {
    await withFleet(async ({ client, orchestrator }) => {
      const tabs: Tab[] = [];
      for (const name of ["oak", "elm"]) tabs.push(await openTab(browser, orchestrator.address, name));
      await client.networks.create(smallNetwork, { id: "small" });
      const { id } = await client.sessions.create({
        ...{ ...settings, network: "small", steps: 9n, checkpointEvery: 3, spread: 1, assurance: "checked" },
      });
      // Done means that every interval was repeated by somebody else, of whom there are only tabs.
      const session = await ended(client, id);
      assert.equal(session.status, "done", session.reason);
      const reports = await Promise.all(tabs.map(({ page }) => page.locator("#log").textContent()));
      assert.match(reports.join(), /repeating VNode/);
    });
  } finally {
    await browser.close();
  }
});
