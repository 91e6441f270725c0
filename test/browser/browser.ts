// A real Chromium for the tests: Debian's if it is there, else the one in our packages, which needs no root.

import { existsSync, mkdirSync } from "node:fs";
import { join } from "node:path";
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
];
const debian = "/usr/bin/chromium";
const artefacts = join(import.meta.dirname, "../../test-artefacts");

export async function launchBrowser(): Promise<Browser> {
  return chromium.launch({ executablePath: await executable(), args });
}

async function executable(): Promise<string> {
  if (existsSync(debian)) return debian;
  const { default: packaged } = await import("@sparticuz/chromium");
  return packaged.executablePath();
}

export interface Watched {
  readonly page: Page;
  /** Console errors, uncaught errors and requests to anywhere else: all of them are faults. */
  readonly faults: string[];
}

/** A page that notes what must not happen. While the orchestrator is away, failed requests are what they should be. */
export async function openPage(browser: Browser, url: string, options: BrowserContextOptions = {}): Promise<Watched> {
  const context = await browser.newContext({ viewport: { width: 1440, height: 1000 }, ...options });
  const page = await context.newPage();
  const faults: string[] = [];
  const origin = new URL(url).origin;
  page.on("console", (message) => {
    if (message.type() !== "error" && message.type() !== "warning") return;
    if (/net::ERR_|Failed to load resource/.test(message.text())) return;
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
  await page.goto(url);
  return { page, faults };
}

export async function screenshot(page: Page, name: string, fullPage = true): Promise<void> {
  mkdirSync(artefacts, { recursive: true });
  await page.screenshot({ path: join(artefacts, `${name}.png`), fullPage });
}
