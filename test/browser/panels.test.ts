// Each panel stands alone, in every browser there is. A browser of the machine that finds a fault, or cannot be driven,
// is told as "todo": its version is nobody's choice here. DCNR_BROWSERS=all makes it count.

import assert from "node:assert/strict";
import { after, before, describe, test } from "node:test";
import type { Browser } from "playwright-core";
import { FakeFleet } from "../../bench/fake-fleet.ts";
import { serveFake } from "../../bench/fake-orchestrator.ts";
import type { Server } from "../../src/protocol/network.ts";
import { buildDashboard } from "../../web/build.ts";
import { browsersHere, openPage } from "./browser.ts";

const panels = ["graph", "curves", "pnodes", "sessions", "chat", "events"];
const patience = { timeout: 30_000 };

let server: Server;
before(async () => {
  server = await serveFake(new FakeFleet({ pnodes: 5, vnodes: 8, lossEvery: 40 }), await buildDashboard(), 200);
});
after(() => server?.close());

for (const { name, decides, launch } of browsersHere())
  describe(`in ${name}`, () => {
    const how = decides ? {} : { todo: "a browser of this machine, told but not counted" };
    let browser: Browser | undefined;
    after(() => browser?.close());
    const opened = async () => {
      browser ??= await launch();
      return browser;
    };

    test("the chat answers and the page stays, where scrolling returns a Promise too", how, async () => {
      const { page, faults } = await openPage(await opened(), `http://${server.address}/`, {
        prepare: () => {
          const scroll = Element.prototype.scrollTo;
          const asNewerBrowsers = function (this: Element, ...given: Parameters<typeof scroll>) {
            Reflect.apply(scroll, this, given);
            return Promise.resolve();
          };
          Object.assign(Element.prototype, { scrollTo: asNewerBrowsers });
        },
      });
      page.setDefaultTimeout(patience.timeout);
      await page.getByLabel("Message").fill("The whale");
      await page.getByLabel("Message").press("Enter");
      await page.locator('.turn[data-who="model"]').getByText("whale is what").waitFor();
      for (const id of panels) assert.equal(await page.locator(`#${id}`).count(), 1, id);
      assert.deepEqual(faults, []);
      await page.context().close();
    });

    test("a panel that fails says so, leaves the others, and can be tried again", how, async () => {
      const { page } = await openPage(await opened(), `http://${server.address}/`, {
        prepare: () => {
          const scroll = Element.prototype.scrollTo;
          const failing = () => {
            throw new Error("the log is stuck");
          };
          Object.assign(globalThis, { mend: () => Object.assign(Element.prototype, { scrollTo: scroll }) });
          Object.assign(Element.prototype, { scrollTo: failing });
        },
      });
      page.setDefaultTimeout(patience.timeout);
      await page.locator("#chat").getByRole("alert").getByText("the log is stuck").waitFor();
      for (const id of panels) assert.equal(await page.locator(`#${id}`).count(), 1, id);
      const step = () => page.locator("#sessions").textContent();
      const before = await step();
      await page.waitForFunction((text) => document.querySelector("#sessions")?.textContent !== text, before);
      await page.evaluate(() => (globalThis as unknown as { mend(): void }).mend());
      await page.getByRole("button", { name: "Try again" }).click();
      await page.getByLabel("Message").waitFor();
      await page.context().close();
    });
  });
