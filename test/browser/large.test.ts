// The dashboard with two hundred of everything and a model that answers, all pretended: its size, its pace, its chat,
// its keyboard. Processes are real in live.test.ts.

import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import type { Browser, Page } from "playwright-core";
import { measureFrames } from "../../bench/dashboard.ts";
import { FakeFleet } from "../../bench/fake-fleet.ts";
import { fakeKey, serveFake } from "../../bench/fake-orchestrator.ts";
import type { DashboardFiles } from "../../src/dashboard/files.ts";
import { compress } from "../../src/dashboard/handler.ts";
import type { Server } from "../../src/protocol/network.ts";
import { buildDashboard } from "../../web/build.ts";
import { accessibilityFaults, tooWide } from "./accessibility.ts";
import { launchBrowser, openPage, screenshot, type Watched } from "./browser.ts";

const size = 200;
const bundleBytesMax = 400 * 1024;
const frameBudgetMs = 1000 / 60;

let files: DashboardFiles;
let server: Server;
let browser: Browser;
let watched: Watched;
let page: Page;

before(async () => {
  files = await buildDashboard();
  server = await serveFake(new FakeFleet({ pnodes: size, vnodes: size, lossEvery: 40 }), files, 100);
  browser = await launchBrowser();
  watched = await openPage(browser, `http://${server.address}/`);
  page = watched.page;
});

after(async () => {
  await browser?.close();
  await server?.close();
});

/** The page and whatever it names, and what that names; the page by which browsers join has files of its own. */
function loadedBy(start: string, found = new Set([start])): ReadonlySet<string> {
  const text = new TextDecoder().decode(files.get(start)?.bytes);
  for (const path of files.keys()) {
    if (found.has(path) || !path.startsWith("/assets/") || !text.includes(path.slice("/assets/".length))) continue;
    loadedBy(path, found.add(path));
  }
  return found;
}

const fail = (path: string): never => assert.fail(`nothing is at ${path}`);

test("everything that is loaded is under 400 KB compressed, and from here", async () => {
  let total = 0;
  for (const path of loadedBy("/")) total += (await compress(files.get(path)?.bytes ?? fail(path), "br")).byteLength;
  assert.ok(total > bundleBytesMax / 4 && total < bundleBytesMax, `${total} bytes`);
  const page = new TextDecoder().decode(files.get("/")?.bytes);
  assert.doesNotMatch(page, /https?:|<script>|style=/);
});

test("two hundred VNodes on two hundred PNodes leave time in every frame", async () => {
  await page.waitForFunction((all) => document.querySelectorAll("[data-vnode][data-host]").length === all, size);
  // Busy neighbours make everything slower; what the page itself needs is the lesser of two measurements.
  const measured = [await measureFrames(page, 2_000), await measureFrames(page, 2_000)];
  const cpuMsPerFrame = Math.min(...measured.map((one) => one.cpuMsPerFrame));
  assert.ok(cpuMsPerFrame < frameBudgetMs, `a frame takes ${cpuMsPerFrame.toFixed(1)} ms of the main thread`);
  await screenshot(page, "large-light");
});

test("so many VNodes stand in blocks; a block tells its VNodes and opens", async () => {
  assert.equal(await page.locator(".group").count(), size / 2);
  await page.getByLabel("Find VNodes").fill("mlp_7");
  await page.getByText("11 VNodes found").waitFor();
  assert.equal(await page.locator(".group:not([data-dim])").count(), 11);
  await page.getByLabel("Find VNodes").fill("");
  await page.locator('[data-group="block 0"]').click();
  await page.getByRole("complementary", { name: "Group block 0" }).getByText("mlp_0").waitFor();
  await page.getByRole("button", { name: "Show one by one" }).click();
  await page.locator('.vnode[data-vnode="mlp_0"]').waitFor();
  await page.getByRole("button", { name: "Close groups" }).click();
  await page.locator('[data-group="block 0"]').waitFor();
});

test("arrow keys go from VNode to VNode and show what is known of it", async () => {
  await page.getByLabel("Group by").selectOption("VNodes");
  await page.waitForFunction((all) => document.querySelectorAll(".vnode[data-host]").length === all, size);
  await page.getByRole("application").focus();
  await page.keyboard.press("ArrowRight");
  await page.keyboard.press("ArrowRight");
  await page.getByRole("complementary", { name: "VNode mlp_0" }).waitFor();
  await page.keyboard.press("Escape");
  assert.equal(await page.getByRole("complementary").count(), 0);
});

test("controls can be reached by Tab and show that they have the focus", async () => {
  await page.evaluate(() => (document.activeElement as HTMLElement | null)?.blur());
  const reached = new Set<string>();
  for (let presses = 0; presses < 45; presses += 1) {
    await page.keyboard.press("Tab");
    const { name, outline } = await page.evaluate(() => {
      const element = document.activeElement as HTMLElement;
      const name = element === document.body ? "" : (element.getAttribute("aria-label") ?? element.textContent ?? "");
      return { name: name.trim(), outline: getComputedStyle(element).outlineStyle };
    });
    // Past the last control the page itself has the focus once.
    if (name === "") continue;
    assert.notEqual(outline, "none", `${name} shows no focus`);
    reached.add(name);
  }
  for (const name of ["Theme: system. Change", "Zoom In", "Find a PNode by name, status or hardware", "Message"])
    assert.ok(reached.has(name), `${name} was not reached: ${[...reached].join(" | ")}`);
});

test("PNodes can be found by name; the rest are a click away", async () => {
  await page.getByLabel("Find a PNode").fill("machine-17");
  await page.locator('[data-pnode="machine-171"]').waitFor();
  assert.equal(await page.locator(".card").count(), 11);
  await page.getByLabel("Find a PNode").fill("");
  await page.getByRole("button", { name: "Show all 200" }).click();
  await page.waitForFunction((all) => document.querySelectorAll(".card").length === all, size);
});

test("an answer streams in and can be stopped", async () => {
  await page.getByLabel("Message").fill("The whale");
  await page.getByLabel("Message").press("Enter");
  const answer = page.locator('.turn[data-who="model"]').last();
  await page.waitForFunction(() =>
    /whale is what/.test(document.querySelector('.turn[data-who="model"]')?.textContent ?? ""),
  );
  assert.equal(await answer.getAttribute("data-state"), "arriving");
  await screenshot(page, "chat", false);
  await page.getByRole("button", { name: "Stop", exact: true }).click();
  await page.locator('.turn[data-who="model"][data-state="stopped"]').waitFor();
  await page.getByRole("button", { name: "Send" }).waitFor();
});

test("a megabyte of text is refused politely, and what was written stays", async () => {
  await page.getByLabel("Message").fill("short");
  await page.getByLabel("Message").fill("x".repeat(1 << 20));
  await page.getByRole("alert").getByText("a message may have 32 KiB").waitFor();
  assert.equal(await page.getByLabel("Message").inputValue(), "short");
});

test("the theme follows the system, can be chosen, and is remembered", async () => {
  const background = () => page.evaluate(() => getComputedStyle(document.documentElement).backgroundColor);
  const light = await background();
  await page.emulateMedia({ colorScheme: "dark" });
  const dark = await background();
  assert.notEqual(dark, light);
  await page.getByRole("button", { name: /^Theme/ }).click();
  assert.equal(await background(), light);
  await page.reload();
  await page.getByRole("button", { name: "Theme: light. Change" }).click();
  assert.equal(await background(), dark);
});

test("it is accessible in the dark and fits a phone", async () => {
  await page.waitForFunction((all) => document.querySelectorAll("[data-vnode][data-host]").length === all, size);
  assert.deepEqual(await accessibilityFaults(page), []);
  await screenshot(page, "large-dark");
  await page.setViewportSize({ width: 375, height: 812 });
  assert.deepEqual(await tooWide(page), []);
  await screenshot(page, "large-phone");
});

test("a change that needs a key asks for it, and goes on with it", async () => {
  await page.getByRole("button", { name: /^Suspend session/ }).click();
  await page.getByLabel("API key").fill(fakeKey);
  await page.getByRole("button", { name: "Use it" }).click();
  await page.getByRole("button", { name: /^Suspend session/ }).click();
  await page.locator('.session[data-status="suspended"]').waitFor();
  assert.equal(await page.getByLabel("API key").count(), 0);
});

test("nothing failed in the console", () => {
  assert.deepEqual(watched.faults, []);
});
