// The dashboard's pages as people use them, in the browser that decides and, with DCNR_BROWSERS=all, in those of the machine: addresses and titles, runs side by side, jobs, machines,
// trust, credits, and what can be done from them. Nothing moves away from what one looks at. The fleet pretends.

import assert from "node:assert/strict";
import { after, before, describe, test } from "node:test";
import type { Browser, Page } from "playwright-core";
import { fakeCompany } from "../../bench/fake-company.ts";
import { FakeFleet, sessionId } from "../../bench/fake-fleet.ts";
import { serveFake } from "../../bench/fake-orchestrator.ts";
import type { Server } from "../../src/protocol/network.ts";
import { buildDashboard } from "../../web/build.ts";
import { accessibilityFaults, tooWide } from "./accessibility.ts";
import { browsersHere, openPage } from "./browser.ts";

const laptop = { width: 1366, height: 768 };
const phone = { width: 390, height: 844 };
/** Smaller letters are guessed, not read. */
const letterPixelsMin = 10;
const past = "gpt-000000000001";

let server: Server;
before(async () => {
  const fleet = new FakeFleet({ pnodes: 4, vnodes: 8, lossEvery: 0, past: 3, gone: 2 });
  for (let step = 0; step < 60; step += 1) fleet.advance();
  server = await serveFake(fleet, await buildDashboard(), 300, { handlers: fakeCompany() });
});
after(() => server?.close());

for (const { name, launch } of browsersHere().filter(({ decides }) => decides))
  describe(`in ${name}`, () => {
    let browser: Browser | undefined;
    after(() => browser?.close());

    /** A page at an address, looked at by `look`; whatever failed in it fails the test. */
    const at = async (address: string, look: (page: Page) => Promise<void>) => {
      browser ??= await launch();
      const { page, faults } = await openPage(browser, `http://${server.address}/${address}`, { viewport: laptop });
      page.setDefaultTimeout(30_000);
      await page.locator('.connection[data-state="live"]').waitFor();
      await look(page);
      assert.deepEqual(faults, []);
      await page.context().close();
    };

    test("a session has an address and a title, and stays what one looks at", () =>
      at("", async (page) => {
        await page.waitForURL((url) => url.hash === `#/sessions/${sessionId}`);
        await page.waitForFunction(() => /^gpt \d+ % · DCNR$/.test(document.title));
        await page.getByText("3 sessions over").click();
        await page.locator(`[data-session="${past}"] a`).click();
        await page.waitForFunction(() => document.title === "gpt done · DCNR");
        await page.locator(`[data-session="${past}"][data-selected]`).waitFor();
        await page.reload();
        await page.locator(`[data-session="${past}"][data-selected]`).waitFor();
        await page.goBack();
        await page.locator(`[data-session="${sessionId}"][data-selected]`).waitFor();
      }));

    test("a session that is not there is said to be missing, and an unknown page too", async () => {
      await at("#/sessions/nosuch", async (page) => {
        await page.getByText("There is no session nosuch here").waitFor();
        await page.getByText("Show the newest").click();
        await page.locator(`[data-session="${sessionId}"][data-selected]`).waitFor();
      });
      await at("#/nosuch", (page) => page.getByText("There is no page “nosuch” here").waitFor());
    });

    test("graph and curve both stand above the fold of a small laptop", () =>
      at("", async (page) => {
        const curve = page.locator('.plot-box[aria-label^="Loss"]');
        await curve.waitFor();
        const box = await curve.boundingBox();
        assert.ok(box && box.y + box.height <= laptop.height, `the curve ends at ${box && box.y + box.height}`);
      }));

    test("on a phone all cards of the graph are seen, and their names can be read", () =>
      at("", async (page) => {
        await page.setViewportSize(phone);
        await page.waitForFunction((least) => {
          const frame = document.querySelector(".graph-frame")?.getBoundingClientRect();
          const cards = Array.from(document.querySelectorAll<HTMLElement>(".graph .vnode"));
          return (
            frame !== undefined &&
            cards.length === 8 &&
            cards.every((card) => {
              const box = card.getBoundingClientRect();
              const name = card.querySelector(".vnode-name") as HTMLElement;
              const letters = Number.parseFloat(getComputedStyle(name).fontSize) * (box.width / card.offsetWidth);
              const isInside = box.left >= frame.left && box.right <= frame.right && box.bottom <= frame.bottom;
              return isInside && letters >= least;
            })
          );
        }, letterPixelsMin);
        assert.deepEqual(await tooWide(page), []);
      }));

    test("the curve shows norms and logarithms, and this device remembers how one looks", () =>
      at("", async (page) => {
        await page.getByLabel("Numbers").selectOption("gradient norm");
        await page.locator('.plot-box[aria-label^="Gradient norm"] canvas').waitFor();
        await page.getByLabel("log").check();
        await page.getByLabel("Smoothing").selectOption("much");
        await page.reload();
        await page.locator('.plot-box[aria-label^="Gradient norm"] canvas').waitFor();
        assert.equal(await page.getByLabel("log").isChecked(), true);
        assert.equal(await page.getByLabel("Smoothing").inputValue(), "much");
      }));

    test("runs are compared: curves together, and the settings in which they differ; the address says which", () =>
      at("#/runs", async (page) => {
        await page.getByLabel(`Compare ${past}`).check();
        await page.getByLabel("Compare gpt-000000000002").check();
        assert.match(page.url(), new RegExp(`#/runs/${past},gpt-000000000002$`));
        const panel = page.locator("#comparison");
        await panel.locator("canvas").waitFor();
        const told = await panel.locator("tr[data-setting]").evaluateAll((rows) => rows.map((row) => row.textContent));
        assert.ok(told.includes("learning rate: base0.0020.003"), told.join(" | "));
        assert.ok(!told.some((row) => row?.startsWith("dataset")), "what is the same is not told");
        await page.reload();
        await panel.locator("canvas").waitFor();
        await panel.getByRole("button", { name: `Leave out ${past}` }).click();
        await page.waitForURL((url) => url.hash === "#/runs/gpt-000000000002");
      }));

    test("runs are sorted by a press on a column's head", () =>
      at("#/runs", async (page) => {
        const first = () => page.locator("#runs tbody tr").first().getAttribute("data-row");
        await page.getByRole("button", { name: "rate", exact: true }).click();
        await page.locator('th[aria-sort="ascending"]').waitFor();
        assert.equal(await first(), sessionId);
        await page.getByRole("button", { name: "rate" }).click();
        await page.locator('th[aria-sort="descending"]').waitFor();
        assert.equal(await first(), "gpt-000000000002");
      }));

    test("jobs say why they wait; one is cancelled after a second press", () =>
      at("#/jobs", async (page) => {
        const row = page.locator('[data-row="job-0003"]');
        // Of two browsers the second finds it cancelled.
        if ((await row.locator(".status").textContent())?.startsWith("cancelled")) return;
        await row.getByText("number 2 in line").waitFor();
        await row.getByRole("button", { name: "Cancel job job-0003" }).click();
        await row.getByRole("button", { name: /^Sure/ }).click();
        await row.locator('.status[data-status="cancelled"]').waitFor();
      }));

    test("machines are drained and used again, others invited, and those that are gone step back", () =>
      at("", async (page) => {
        await page.getByText("2 machines gone").waitFor();
        assert.equal(await page.locator(".card").count(), 4);
        await page.getByRole("button", { name: "Manage" }).click();
        const card = page.locator('[data-pnode="machine-2"]');
        await card.getByRole("button", { name: "Drain PNode machine-2" }).click();
        await card.getByRole("button", { name: /^Sure/ }).click();
        await card.getByText("drained", { exact: true }).waitFor();
        await card.getByRole("button", { name: "Use PNode machine-2 again" }).click();
        await card.getByText("online", { exact: true }).waitFor();
        await page.getByRole("button", { name: "Invite" }).click();
        await page.getByRole("button", { name: "Make a link" }).click();
        await page.getByText(`dcnr join 'dcnr://192.0.2.1:7700/${"k".repeat(52)}?invite=fake-token'`).waitFor();
      }));

    test("a new training begins with the settings of the one that is shown", () =>
      at("", async (page) => {
        await page.getByRole("button", { name: "New", exact: true }).click();
        const form = page.getByRole("form", { name: "New training" });
        await form.getByLabel("Batch").waitFor();
        assert.equal(await form.getByLabel("Batch").inputValue(), "64");
        assert.equal(await form.getByLabel("Steps").inputValue(), "5000");
        await form.getByLabel("Seed").fill("9");
        await form.getByRole("button", { name: "Train" }).click();
        await page.waitForURL((url) => url.hash === "#/sessions/gpt-of-seed-9");
      }));

    test("a conversation is there again after a reload, with its pace and its machines, until it is forgotten", () =>
      at("", async (page) => {
        await page.getByLabel("Message").fill("The whale");
        await page.getByLabel("Message").press("Enter");
        await page.getByText(/\d+ tokens, [\d.]+\/s/).waitFor();
        const stop = page.getByRole("button", { name: "Stop", exact: true });
        const before = await stop.boundingBox();
        const log = page.getByRole("log", { name: "Conversation" });
        const said = (await log.innerText()).length;
        await page.waitForFunction(
          (length) => (document.querySelector('[role="log"]') as HTMLElement).innerText.length > length + 200,
          said,
        );
        assert.deepEqual(await stop.boundingBox(), before, "what is pressed stays where it is while text arrives");
        await stop.click();
        const note = page.getByText(/stopped after \d+ tokens, [\d.]+\/s · from machine-1, machine-2/);
        await note.waitFor();
        await page.reload();
        await note.waitFor();
        await page.getByRole("button", { name: "Forget this conversation" }).click();
        await page.getByText("Ask gpt to go on with a text.").waitFor();
      }));

    test("the report and credits tell what they have", async () => {
      await at("#/report", async (page) => {
        await page.getByText("8 times training lost a machine").waitFor();
        await page.getByText("spent, 15 min over").waitFor();
        await page.getByText("2 of 3 waiting jobs would start at once.").waitFor();
      });
      await at("#/credits", async (page) => {
        await page.locator('[data-row="grace"]').waitFor();
        assert.equal(await page.locator("#credits tbody tr").first().getAttribute("data-row"), "grace");
      });
    });

    test("trust tells what is known of machines and sessions, and how to repeat what was found wrong", () =>
      at("#/trust", async (page) => {
        const machines = page.locator("#trust tbody tr");
        await machines.first().waitFor();
        assert.equal(await machines.first().getAttribute("data-row"), "machine-3", "who was found wrong comes first");
        await page.locator('[data-row="machine-1"]').getByText("an operator vouches for it").waitFor();
        await page.locator('[data-row="machine-2"]').getByText("recomputed by a trusted machine").waitFor();
        await page.locator('[data-row="machine-4"]').getByText("never").waitFor();
        const conviction = page.locator("#convictions tbody tr");
        assert.equal(await conviction.count(), 1);
        await conviction.getByRole("button", { name: `Copy: dcnr audit ${sessionId} block_2 20` }).waitFor();
        const checked = page.locator(`#assurance [data-row="${sessionId}"]`);
        await checked.getByText("75 %", { exact: true }).waitFor();
        await checked.getByText("25.0 % by nobody").waitFor();
        await page.locator("#audits").getByText("machine-1 (audit)").waitFor();
      }));

    test("every page can be reached and read, in light and dark, and fits a phone", async () => {
      for (const address of [
        "#/",
        `#/runs/${past},${sessionId}`,
        "#/jobs",
        "#/studies",
        "#/report",
        "#/trust",
        "#/credits",
      ])
        await at(address, async (page) => {
          await page.locator(".panel").first().waitFor();
          for (const colorScheme of ["light", "dark"] as const) {
            await page.emulateMedia({ colorScheme });
            assert.deepEqual(await accessibilityFaults(page), [], `${address} ${colorScheme}`);
          }
          await page.setViewportSize({ width: 375, height: 812 });
          // Plots follow their boxes a frame later.
          await page
            .waitForFunction(
              () => innerWidth === 375 && document.documentElement.scrollWidth <= innerWidth,
              undefined,
              { timeout: 10_000 },
            )
            .catch(() => {});
          assert.deepEqual(await tooWide(page), [], address);
        });
    });
  });
