// Tabs for the tests: real pages of a real browser that lend it, each in a process of its own, which can be frozen and killed.

import type { Browser, Page } from "playwright-core";

export interface Tab {
  readonly name: string;
  readonly page: Page;
  /** The browser's processes that run this page and its workers. */
  readonly processes: readonly number[];
  signal(signal: NodeJS.Signals): Promise<void>;
}

async function renderers(browser: Browser): Promise<number[]> {
  const session = await browser.newBrowserCDPSession();
  const { processInfo } = await session.send("SystemInfo.getProcessInfo");
  await session.detach();
  return processInfo.filter(({ type }) => type === "renderer").map(({ id }) => id);
}

/** Opens the page that an orchestrator serves, and waits until the machine is lent and was reached. */
export async function openTab(browser: Browser, orchestrator: string, name: string, { gpu = true } = {}): Promise<Tab> {
  const before = new Set(await renderers(browser));
  const page = await (await browser.newContext()).newPage();
  await page.goto(`http://${orchestrator}/join`);
  await page.locator("#limits").waitFor({ timeout: 60_000 });
  await page.fill("#cores", "1");
  await page.fill("#name", name);
  if (!gpu && (await page.isEnabled("#gpu"))) await page.uncheck("#gpu");
  await page.click("#lend");
  await page.getByText("Ready. It waits for work.").waitFor({ timeout: 120_000 });
  await page.getByText("by relay").waitFor({ timeout: 60_000 });
  const processes = (await renderers(browser)).filter((id) => !before.has(id));
  // Browsers hold a process in reserve, which may have ended since.
  const signal = async (kind: NodeJS.Signals) => {
    const alive = new Set(await renderers(browser));
    for (const id of processes) if (alive.has(id)) process.kill(id, kind);
  };
  return { name, page, processes, signal };
}
