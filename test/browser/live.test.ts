// The dashboard in a real browser, over real processes: what a maintainer would see, in the order it happens.

import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import type { Browser, Page } from "playwright-core";
import { accessibilityFaults, tooWide } from "./accessibility.ts";
import { launchBrowser, openPage, screenshot, type Watched } from "./browser.ts";
import { Lab } from "./lab.ts";

const hostile = "<script>alert(1)</script>";
const patience = { timeout: 60_000 };

let lab: Lab;
let browser: Browser;
let watched: Watched;
let page: Page;

before(async () => {
  // One after the other: if one fails, what did start is still ended.
  lab = await Lab.start();
  browser = await launchBrowser();
  watched = await openPage(browser, lab.url);
  page = watched.page;
  page.setDefaultTimeout(patience.timeout);
});

after(async () => {
  await browser?.close();
  await lab?.stop();
});

const vnode = (id: string) => page.locator(`.vnode[data-vnode="${id}"]`);
const pnode = (name: string) => page.locator(`[data-pnode=${JSON.stringify(name)}]`);

async function shownStep(): Promise<number> {
  const text = (await vnode("hidden").locator(".vnode-numbers").textContent()) ?? "";
  return Number(/step ([\d,]+)/.exec(text)?.[1]?.replaceAll(",", "") ?? Number.NaN);
}

async function untilStepAbove(step: number): Promise<void> {
  await page.waitForFunction((least) => {
    const text = document.querySelector('.vnode[data-vnode="hidden"] .vnode-numbers')?.textContent ?? "";
    return Number(/step ([\d,]+)/.exec(text)?.[1]?.replaceAll(",", "") ?? -1) > least;
  }, step);
}

test("an empty network says what to do next", async () => {
  await page.getByText("No PNode has joined yet.").waitFor();
  await page.getByText(`dcnr join ${lab.address}`).waitFor();
  await page.getByText("No training yet.").waitFor();
  await page.getByText("No model is served.").waitFor();
  assert.deepEqual(await accessibilityFaults(page), []);
  await screenshot(page, "empty");
});

test("PNodes appear as they join, and a name is only text", async () => {
  await Promise.all([lab.join("maple"), lab.join("birch"), lab.join(hostile)]);
  for (const name of ["maple", "birch", hostile]) await pnode(name).locator('.status[data-status="online"]').waitFor();
  assert.equal(await pnode(hostile).locator("strong").textContent(), hostile);
  assert.equal(await page.locator("#root script").count(), 0);
});

test("a training appears, its VNodes advance, its curve grows", async () => {
  await lab.run("network", "create", "examples/mlp.yaml");
  const settings = [
    "--steps",
    "1000000",
    "--batch",
    "16",
    "--validate-every",
    "20",
    "--checkpoint-every",
    "10",
    "--spread",
    "3",
  ];
  await lab.run("train", "mlp", "--dataset", "mnist", "--detach", ...settings);
  for (const id of ["hidden", "activation", "output"]) await vnode(id).waitFor();
  await untilStepAbove(10);
  await page.locator('.plot-box[aria-label^="Loss"] canvas').waitFor();
  await page.getByText(/^Training: 3 VNodes on 3 PNodes/).waitFor();
  await screenshot(page, "training-light");
});

test("a killed PNode's VNodes turn red, move to another host, and go on", async () => {
  const host = (await vnode("hidden").getAttribute("data-host")) ?? "";
  const reached = await shownStep();
  await page.evaluate(() => {
    const card = document.querySelector('.vnode[data-vnode="hidden"]') as HTMLElement;
    const seen: string[] = [];
    Object.assign(globalThis, { seenConditions: seen });
    const note = () => void (seen.at(-1) !== card.dataset["condition"] && seen.push(card.dataset["condition"] ?? ""));
    new MutationObserver(note).observe(card, { attributes: true });
    note();
  });
  lab.pnodes.get(host)?.kill("SIGKILL");
  await page.locator('.vnode[data-vnode="hidden"][data-condition="lost"]').waitFor();
  await screenshot(page, "lost", false);
  await page.locator('.vnode[data-vnode="hidden"][data-condition="moved"]').waitFor();
  await screenshot(page, "moved", false);
  await page.locator('.vnode[data-vnode="hidden"][data-condition="steady"]').waitFor();
  const seen = await page.evaluate(() => (globalThis as unknown as { seenConditions: string[] }).seenConditions);
  assert.deepEqual(seen, ["steady", "lost", "moved", "steady"]);
  assert.notEqual(await vnode("hidden").getAttribute("data-host"), host);
  await pnode(host).locator('.status[data-status="lost"]').waitFor();
  await untilStepAbove(reached);
  const mark = page.locator('[data-mark="recovered"]');
  await mark.waitFor({ state: "attached" });
  assert.match((await mark.textContent()) ?? "", /was lost at step \d+; back in [\d.]+ m?s; nothing lost/);
});

test("events can be filtered by level, kind and text", async () => {
  const rows = page.locator(".event");
  await page.getByLabel("Level").selectOption("warn");
  await page.locator('.event[data-kind="pnode.lost"]').waitFor();
  for (const level of await rows.evaluateAll((all) => all.map((row) => (row as HTMLElement).dataset["level"])))
    assert.ok(level === "warn" || level === "error");
  await page.getByLabel("Level").selectOption("all");
  await page.getByLabel("Kind").selectOption("session");
  await page.locator('.event[data-kind="session.started"]').waitFor();
  assert.equal(await page.locator('.event[data-kind^="pnode"]').count(), 0);
  await page.getByLabel("Text in events").fill("nothing is like this");
  await page.getByText("No event is like that.").waitFor();
  await page.getByLabel("Text in events").fill("");
  await page.getByLabel("Kind").selectOption("");
});

test("a session is suspended and resumed from the page", async () => {
  await page.getByRole("button", { name: /^Suspend session/ }).click();
  await page.locator('.session[data-status="suspended"]').waitFor();
  const reached = await shownStep();
  await page.getByRole("button", { name: /^Resume session/ }).click();
  await page.locator('.session[data-status="running"]').waitFor();
  await untilStepAbove(reached);
});

test("the page says that the orchestrator is away, and finds it again without losing anything", async () => {
  await page.evaluate(() => Object.assign(globalThis, { sameDocument: true }));
  const events = await page.locator(".event").count();
  await lab.killOrchestrator();
  await page.getByText(`The orchestrator at ${lab.address} is away`).waitFor();
  await page.locator('.connection[data-state="away"]').waitFor();
  assert.equal(await page.locator(".vnode").count(), 3, "what was known stays on the screen");
  await screenshot(page, "away", false);
  const reached = await shownStep();
  await lab.restartOrchestrator();
  await page.locator('.connection[data-state="live"]').waitFor();
  await untilStepAbove(reached);
  assert.ok((await page.locator(".event").count()) >= events, "earlier events are still there");
  assert.equal(await page.evaluate(() => "sameDocument" in globalThis), true, "it was not reloaded");
});

test("a served model answers in the chat box", async () => {
  await lab.run("network", "create", "examples/gpt-demo.yaml");
  const trained = await lab.run(
    "train",
    "gpt-demo",
    "--dataset",
    "moby-dick",
    "--steps",
    "2",
    "--batch",
    "4",
    "--json",
  );
  await lab.run("serve", (JSON.parse(trained) as { id: string }).id);
  await page.getByLabel("Message").fill("The whale");
  await page.getByRole("button", { name: "Send" }).click();
  const answer = page.locator('.turn[data-who="model"][data-state="done"]');
  await answer.waitFor();
  // How many a second is said of answers that take long enough, which depends on the machine.
  assert.match((await answer.textContent()) ?? "", /\d+ tokens?\b/);
  await page
    .getByText(/VNodes? of served models/)
    .first()
    .waitFor();
  await screenshot(page, "served");
});

test("everything can be reached and read in light and dark, and on a phone", async () => {
  for (const colorScheme of ["light", "dark"] as const) {
    await page.emulateMedia({ colorScheme });
    assert.deepEqual(await accessibilityFaults(page), [], colorScheme);
    await screenshot(page, `live-${colorScheme}`);
  }
  await page.setViewportSize({ width: 375, height: 812 });
  await page.waitForFunction(() => innerWidth === 375);
  assert.deepEqual(await tooWide(page), []);
  assert.deepEqual(await accessibilityFaults(page), [], "on a phone");
  await screenshot(page, "live-phone");
});

test("a page of somebody else may not call the orchestrator", async () => {
  const call = (headers: Record<string, string>) =>
    fetch(new URL("/dcnr.v1.FleetService/GetStatus", lab.url), {
      method: "POST",
      headers: { "content-type": "application/json", ...headers },
      body: "{}",
    });
  assert.equal((await call({ origin: new URL(lab.url).origin })).status, 200);
  assert.equal((await call({ origin: "http://evil.example" })).status, 403);
  assert.equal((await call({ origin: "null" })).status, 403);
});

test("nothing was asked of anybody else, and nothing failed in the console", () => {
  assert.deepEqual(watched.faults, []);
});
