// `npm run screenshots`: pictures of the dashboard as people meet it (nothing there, 5 and 140 VNodes, a kill, a study, runs side by
// side, a phone, light and dark), to be looked at. The fleet pretends. `--only TEXT` takes some; `--renew` makes the README's picture, too.

import { copyFileSync, mkdirSync } from "node:fs";
import { join } from "node:path";
import { parseArgs } from "node:util";
import type { Browser, Page } from "playwright-core";
import { fakeCompany } from "../bench/fake-company.ts";
import { FakeFleet, type FakeFleetOptions } from "../bench/fake-fleet.ts";
import { serveFake } from "../bench/fake-orchestrator.ts";
import { fakeStudy } from "../bench/fake-study.ts";
import { launchBrowser, openPage } from "../test/browser/browser.ts";
import { buildDashboard } from "../web/build.ts";

const root = join(import.meta.dirname, "..");
const artefacts = join(root, "test-artefacts/screenshots");
const laptop = { width: 1366, height: 768 };
const desk = { width: 1440, height: 1000 };
const phone = { width: 390, height: 844 };
/** A curve to look at before anything is shown. */
const stepsBefore = 240;
const stepMs = 200;

interface Shot {
  readonly name: string;
  readonly address?: string;
  readonly size?: { readonly width: number; readonly height: number };
  readonly dark?: boolean;
  readonly fullPage?: boolean;
  /** What is done before the picture is taken. */
  readonly prepare?: (page: Page) => Promise<unknown>;
  /** Curves are drawn now and then, groups are fitted a frame later. */
  readonly settleMs?: number;
}

interface Scene extends FakeFleetOptions {
  readonly name: string;
  readonly shots: readonly Shot[];
}

const compared = "gpt-0123456789ab,gpt-000000000000,gpt-000000000003";

/** Names as of T1: an embedder, six blocks of 23 parts, a head. */
function blockName(index: number): string {
  if (index === 0) return "embedder";
  if (index === 139) return "lm_head";
  const inside = (index - 1) % 23;
  const part = inside < 8 ? `head_${inside}` : `part_${inside}`;
  return `block_${Math.floor((index - 1) / 23) + 1}_${part}`;
}

const scenes: readonly Scene[] = [
  {
    name: "empty",
    pnodes: 0,
    vnodes: 0,
    lossEvery: 0,
    shots: [
      { name: "laptop", size: laptop },
      { name: "dark-phone", size: phone, dark: true, fullPage: true },
    ],
  },
  {
    name: "five",
    ...{ pnodes: 3, vnodes: 5, lossEvery: 0, past: 5, gone: 4 },
    shots: [
      { name: "laptop", size: laptop },
      { name: "whole", fullPage: true },
      { name: "dark", dark: true },
      { name: "phone", size: phone, fullPage: true },
      { name: "phone-first", size: phone },
      { name: "norms", prepare: (page) => page.getByLabel("Numbers").selectOption("gradient norm") },
      { name: "new", prepare: (page) => page.getByRole("button", { name: "New", exact: true }).click() },
      { name: "invite", fullPage: true, prepare: (page) => page.getByRole("button", { name: "Invite" }).click() },
      { name: "chat", size: laptop, prepare: talk },
      { name: "runs", address: "#/runs" },
      { name: "compared", address: `#/runs/${compared}`, prepare: (page) => page.getByLabel("log").check() },
      { name: "compared-dark-phone", address: `#/runs/${compared}`, size: phone, dark: true, fullPage: true },
      { name: "jobs", address: "#/jobs" },
      { name: "jobs-phone", address: "#/jobs", size: phone },
      { name: "study", address: "#/studies" },
      { name: "study-dark-phone", address: "#/studies", size: phone, dark: true, fullPage: true },
      { name: "report", address: "#/report" },
      { name: "report-phone", address: "#/report", size: phone, fullPage: true },
      { name: "trust", address: "#/trust" },
      { name: "trust-dark-phone", address: "#/trust", size: phone, dark: true, fullPage: true },
      { name: "credits", address: "#/credits" },
      { name: "credits-dark-phone", address: "#/credits", size: phone, dark: true, fullPage: true },
    ],
  },
  {
    name: "hundred-and-forty",
    ...{ pnodes: 9, vnodes: 140, lossEvery: 0, vnodeName: blockName },
    shots: [
      { name: "laptop", size: laptop },
      { name: "dark", dark: true },
      { name: "machines", prepare: (page) => page.getByLabel("Group by").selectOption("machines") },
      { name: "each", prepare: (page) => page.getByLabel("Group by").selectOption("VNodes") },
      { name: "sought", prepare: (page) => page.getByLabel("Find VNodes").fill("machine-3") },
      { name: "group", prepare: (page) => page.locator('[data-group="block 2"]').click() },
      { name: "phone", size: phone, fullPage: true },
      { name: "phone-first", size: phone },
    ],
  },
  {
    name: "kill",
    ...{ pnodes: 5, vnodes: 8, lossEvery: 60 },
    shots: [
      {
        name: "lost",
        size: laptop,
        settleMs: 0,
        prepare: (page) => page.locator('.vnode[data-condition="lost"]').first().waitFor(),
      },
      {
        name: "lost-dark-phone",
        ...{ size: phone, dark: true },
        settleMs: 0,
        prepare: (page) => page.locator('.vnode[data-condition="lost"]').first().waitFor(),
      },
      {
        name: "moved",
        size: laptop,
        prepare: (page) => page.locator('.vnode[data-condition="moved"]').first().waitFor(),
      },
      {
        name: "picture",
        size: { width: 1440, height: 900 },
        prepare: (page) => page.locator("[data-mark]").first().waitFor({ state: "attached" }),
      },
      {
        name: "over",
        size: laptop,
        prepare: (page) => page.locator("[data-mark]").first().waitFor({ state: "attached" }),
      },
    ],
  },
];

async function talk(page: Page): Promise<void> {
  await page.getByLabel("Message").fill("The whale");
  await page.getByLabel("Message").press("Enter");
  await page.getByText(/\d+ tokens, [\d.]+\/s/).waitFor();
  await page.getByRole("button", { name: "Stop" }).click();
  await page.getByText(/ · from machine-/).waitFor();
  await page.locator("#chat").scrollIntoViewIfNeeded();
}

async function take(browser: Browser, url: string, scene: string, shot: Shot): Promise<void> {
  const { page, faults } = await openPage(browser, `${url}${shot.address ?? ""}`, {
    viewport: shot.size ?? desk,
    colorScheme: shot.dark ? "dark" : "light",
    reducedMotion: "reduce",
  });
  page.setDefaultTimeout(60_000);
  await page.locator('.connection[data-state="live"]').waitFor();
  await page.locator(".panel").first().waitFor();
  await shot.prepare?.(page);
  await page.waitForTimeout(shot.settleMs ?? 1_500);
  const path = join(artefacts, `${scene}-${shot.name}.png`);
  await page.screenshot({ path, fullPage: shot.fullPage ?? false });
  await page.context().close();
  if (faults.length > 0) throw new Error(`${scene} ${shot.name}: ${faults.join("; ")}`);
  console.log(path);
}

const { values } = parseArgs({ options: { only: { type: "string" }, renew: { type: "boolean" } } });
mkdirSync(artefacts, { recursive: true });
const files = await buildDashboard();
const browser = await launchBrowser();
try {
  for (const scene of scenes) {
    const wanted = scene.shots.filter(({ name }) => `${scene.name}-${name}`.includes(values.only ?? ""));
    if (wanted.length === 0) continue;
    const fleet = new FakeFleet(scene);
    for (let step = 0; step < stepsBefore; step += 1) fleet.advance();
    const server = await serveFake(fleet, files, stepMs, { studies: [fakeStudy], handlers: fakeCompany() });
    try {
      for (const shot of wanted) await take(browser, `http://${server.address}/`, scene.name, shot);
    } finally {
      await server.close();
    }
  }
} finally {
  await browser.close();
}
if (values.renew) copyFileSync(join(artefacts, "kill-picture.png"), join(root, "docs/images/dashboard.png"));
