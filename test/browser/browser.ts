// Browsers for the tests: always the Chromium in our packages, which needs no root and is the same everywhere; and
// those that the machine has, whose version nobody chose.

import { execFile } from "node:child_process";
import { existsSync, mkdirSync, mkdtempSync, renameSync, rmSync } from "node:fs";
import { join } from "node:path";
import { promisify } from "node:util";
import { type Browser, type BrowserContextOptions, chromium, type Page } from "playwright-core";

const args = [
  "--headless",
  "--no-sandbox",
  "--disable-gpu",
  "--disable-quic",
  "--no-first-run",
  "--disable-background-networking",
  "--disable-component-update",
  "--disable-sync",
  // Each page has a process that no other page gets.
  "--disable-features=SpareRendererForSitePerProcess",
];
/** A GPU in software for pages, which every Chromium brings. */
const gpuArgs = ["--enable-unsafe-webgpu", "--use-webgpu-adapter=swiftshader", "--enable-features=Vulkan"];
const artefacts = join(import.meta.dirname, "../../test-artefacts");

/** The browser that decides whether the tests pass. */
export async function launchBrowser({ gpu = false } = {}): Promise<Browser> {
  const executablePath = await packagedBrowser();
  const own = gpu ? [...args.filter((one) => one !== "--disable-gpu"), ...gpuArgs] : args;
  return chromium.launch({ executablePath, args: own });
}

/**
 * Unpacked once for each clone. The package would unpack itself into a place that all share, and hand it to the second
 * one who asks while the first one is still writing: so it unpacks into a folder of its own, which takes its name whole.
 */
async function packagedBrowser(): Promise<string> {
  const modules = join(import.meta.dirname, "../../node_modules");
  const unpacked = join(modules, ".cache", "chromium");
  if (!existsSync(unpacked)) {
    mkdirSync(join(modules, ".cache"), { recursive: true });
    const draft = mkdtempSync(`${unpacked}-`);
    const program = 'import chromium from "@sparticuz/chromium"; await chromium.executablePath();';
    await promisify(execFile)(process.execPath, ["--input-type=module", "--eval", program], {
      cwd: join(modules, ".."),
      env: { ...process.env, TMPDIR: draft },
    });
    try {
      renameSync(draft, unpacked);
    } catch (error) {
      rmSync(draft, { recursive: true, force: true });
      // Somebody else was faster.
      if (!existsSync(unpacked)) throw error;
    }
  }
  return join(unpacked, "chromium");
}

export interface FoundBrowser {
  readonly name: string;
  /** What it finds fails the tests; what another finds is told, unless DCNR_BROWSERS=all asks for more. */
  readonly decides: boolean;
  launch(): Promise<Browser>;
}

const chromiums = ["chromium", "chromium-browser", "google-chrome-stable", "google-chrome"];

/** The first of these programs that the machine has. */
export function findProgram(names: readonly string[], path = process.env["PATH"] ?? ""): string | undefined {
  const folders = [...path.split(":"), "/usr/bin", "/snap/bin", "/Applications/Google Chrome.app/Contents/MacOS"];
  return names.flatMap((name) => folders.map((folder) => join(folder, name))).find((file) => existsSync(file));
}

/** The one in our packages first, then a Chromium that the machine has. Firefox is driven in firefox.ts. */
export function browsersHere(): readonly FoundBrowser[] {
  const decides = process.env["DCNR_BROWSERS"] === "all";
  const found: FoundBrowser[] = [{ name: "our Chromium", decides: true, launch: launchBrowser }];
  const systemChromium = findProgram([...chromiums, "Google Chrome"]);
  if (systemChromium)
    found.push({
      name: systemChromium,
      decides,
      launch: () => chromium.launch({ executablePath: systemChromium, args }),
    });
  return found;
}

export interface Watched {
  readonly page: Page;
  /** Console errors, uncaught errors and requests to anywhere else: all of them are faults. */
  readonly faults: string[];
}

export interface PageOptions extends BrowserContextOptions {
  /** Runs in the page before anything of it. */
  readonly prepare?: () => void;
}

/** A page that notes what must not happen. While the orchestrator is away, failed requests are what they should be. */
export async function openPage(browser: Browser, url: string, options: PageOptions = {}): Promise<Watched> {
  const { prepare, ...contextOptions } = options;
  const context = await browser.newContext({ viewport: { width: 1440, height: 1000 }, ...contextOptions });
  const page = await context.newPage();
  const faults: string[] = [];
  const origin = new URL(url).origin;
  page.on("console", (message) => {
    if (message.type() !== "error" && message.type() !== "warning") return;
    // The browser's own words to whoever asks for a GPU where there is none.
    if (/net::ERR_|Failed to load resource|No available adapters/.test(message.text())) return;
    faults.push(`console: ${message.text()}`);
  });
  page.on("pageerror", (error) => faults.push(`uncaught: ${error.message}`));
  page.on("dialog", (dialog) => {
    faults.push(`dialog: ${dialog.message()}`);
    void dialog.dismiss();
  });
  page.on("request", (request) => {
    if (!request.url().startsWith(origin) && !request.url().startsWith("data:"))
      faults.push(`request to ${request.url()}`);
  });
  if (prepare) await page.addInitScript(prepare);
  await page.goto(url);
  return { page, faults };
}

export async function screenshot(page: Page, name: string, fullPage = true): Promise<void> {
  mkdirSync(artefacts, { recursive: true });
  await page.screenshot({ path: join(artefacts, `${name}.png`), fullPage });
}
