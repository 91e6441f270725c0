// The page of a study in a real browser: its table, its lines, what is lit up, in light and dark, for everybody.

import assert from "node:assert/strict";
import { after, before, describe, test } from "node:test";
import type { Browser } from "playwright-core";
import { FakeFleet } from "../../bench/fake-fleet.ts";
import { serveFake } from "../../bench/fake-orchestrator.ts";
import { fakeStudy } from "../../bench/fake-study.ts";
import type { Server } from "../../src/protocol/network.ts";
import { buildDashboard } from "../../web/build.ts";
import { accessibilityFaults, tooWide } from "./accessibility.ts";
import { browsersHere, openPage } from "./browser.ts";

let server: Server;
before(async () => {
  const fleet = new FakeFleet({ pnodes: 3, vnodes: 4, lossEvery: 40 });
  server = await serveFake(fleet, await buildDashboard(), 500, {
    studies: [fakeStudy, { ...fakeStudy, id: "job-2", name: "others" }],
  });
});
after(() => server?.close());

for (const { name, decides, launch } of browsersHere())
  describe(`in ${name}`, () => {
    const how = decides ? {} : { todo: "a browser of this machine, told but not counted" };
    let browser: Browser | undefined;
    after(() => browser?.close());

    test("a study shows its trials, the best first, with their lines, and a row lights up its own", how, async () => {
      browser ??= await launch();
      const { page, faults } = await openPage(browser, `http://${server.address}/#/studies`);
      page.setDefaultTimeout(30_000);
      const panel = page.locator("#studies");
      await panel.locator("tbody tr").nth(8).waitFor();
      assert.equal(await panel.locator("tbody tr").first().locator("th").textContent(), "6");
      assert.equal(await panel.locator("svg").count(), 2);
      assert.equal(await panel.locator(".trial-line").count(), 18);
      assert.equal(await panel.locator(".trial-line[data-best]").count(), 2);
      await panel.locator('tr[data-trial="3"]').hover();
      await panel.locator('.trial-line[data-trial="3"][data-lit]').first().waitFor();
      await panel.getByLabel("Study", { exact: true }).selectOption("job-2");
      await panel.getByText("others: random search").waitFor();
      for (const colorScheme of ["light", "dark"] as const) {
        await page.emulateMedia({ colorScheme });
        assert.deepEqual(await accessibilityFaults(page), [], colorScheme);
      }
      await page.setViewportSize({ width: 400, height: 800 });
      assert.deepEqual(await tooWide(page), []);
      assert.deepEqual(faults, []);
      await page.context().close();
    });
  });
