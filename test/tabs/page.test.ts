// The page by which a browser lends its machine: whom it says what, on every screen, and in browsers that cannot.

import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { promisify } from "node:util";
import { gzipSync } from "node:zlib";
import type { Browser } from "playwright-core";
import { type Child, startChild, stopChild } from "../../src/cli/machine/processes.ts";
import { buildDashboard } from "../../web/build.ts";
import { accessibilityFaults, tooWide } from "../browser/accessibility.ts";
import { launchBrowser, openPage } from "../browser/browser.ts";

const dcnr = join(import.meta.dirname, "../../bin/dcnr.js");
/** More than twice the silence after which a machine is given up. */
const heldUpMs = 8_000;
const directory = mkdtempSync(join(tmpdir(), "dcnr-join-page-"));
let orchestrator: Child;
let browser: Browser;
const url = () => `http://${orchestrator.address}/join`;

before(async () => {
  // No relay: then it says what is missing.
  orchestrator = await startChild("the orchestrator", ["orchestrator", "--listen", "127.0.0.1:0", "--dir", directory]);
  browser = await launchBrowser();
});
after(async () => {
  await browser?.close();
  if (orchestrator) await stopChild(orchestrator, 2_000);
  rmSync(directory, { recursive: true, force: true });
});

test("a first visit is at most 500 KB, compressed", async () => {
  let bytes = 0;
  for (const [path, file] of await buildDashboard())
    if (/^\/(join|assets\/(join|tab|chunk|icon))/.test(path)) bytes += gzipSync(file.bytes).byteLength;
  assert.ok(bytes > 100_000, "the test sees the files");
  assert.ok(bytes <= 500_000, `${bytes} bytes`);
});

for (const colorScheme of ["light", "dark"] as const)
  for (const [width, height] of [
    [1280, 900],
    [360, 740],
  ] as const)
    test(`everybody can read and use it: ${colorScheme}, ${width} wide`, async () => {
      const { page, faults } = await openPage(browser, url(), { colorScheme, viewport: { width, height } });
      await page.locator("#limits").waitFor({ timeout: 60_000 });
      assert.deepEqual(await accessibilityFaults(page), []);
      assert.deepEqual(await tooWide(page), []);
      assert.deepEqual(faults, []);
      await page.context().close();
    });

test("one button lends, the page says what it does and what is missing, and another one leaves", async () => {
  const { page, faults } = await openPage(browser, url(), { viewport: { width: 360, height: 740 } });
  page.setDefaultTimeout(60_000);
  await page.locator("#limits").waitFor();
  await page.fill("#cores", "1");
  await page.fill("#name", "willow");
  await page.check("#when-shown");
  await page.click("#lend");
  await page.getByText("Ready. It waits for work.").waitFor();
  await page.getByText(/gets no work:.*it is a browser.*--relay/).waitFor();
  assert.equal(await page.locator("#kept").textContent(), "kept by this browser");
  // A page whose own thread stands still, as good as hidden: its workers say on that the machine lives.
  await page.evaluate((ms) => {
    const endMs = performance.now() + ms;
    while (performance.now() < endMs);
  }, heldUpMs);
  const { stdout } = await promisify(execFile)(process.execPath, [
    ...[dcnr, "events", "--orchestrator", orchestrator.address],
  ]);
  assert.match(stdout, /willow is here/);
  assert.doesNotMatch(stdout, /willow is lost/);
  assert.deepEqual(await accessibilityFaults(page), []);
  assert.deepEqual(await tooWide(page), []);
  const key = await page.locator("#key").textContent();
  await page.click("#leave");
  await page.getByText("It has left. Thank you.").waitFor();
  await page.click("#lend");
  await page.getByText("Ready. It waits for work.").waitFor();
  assert.equal(await page.locator("#key").textContent(), key, "the browser keeps its key");
  assert.deepEqual(faults, []);
  await page.context().close();
});

const poorBrowsers: readonly [string, RegExp, () => void][] = [
  [
    "without shared memory",
    /SharedArrayBuffer/,
    () => Object.defineProperty(globalThis, "SharedArrayBuffer", { value: undefined }),
  ],
  ["without vectors", /SIMD/, () => Object.assign(WebAssembly, { validate: () => false })],
  [
    "without WebAssembly",
    /no WebAssembly/,
    () => Object.defineProperty(globalThis, "WebAssembly", { value: undefined }),
  ],
  [
    "that is too old",
    /too old/,
    () =>
      Object.defineProperty(SubtleCrypto.prototype, "generateKey", {
        value: () => Promise.reject(new Error("NotSupportedError")),
      }),
  ],
];

for (const [which, sentence, prepare] of poorBrowsers)
  test(`a browser ${which} is told so in one sentence, and has no button to press`, async () => {
    const { page } = await openPage(browser, url(), { prepare });
    await page.getByText(sentence).waitFor({ timeout: 30_000 });
    assert.equal(await page.locator("#lend").isVisible(), false);
    assert.deepEqual(await accessibilityFaults(page), []);
    await page.context().close();
  });
