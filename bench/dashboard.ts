// The dashboard in a real headless browser against a fleet that pretends: how large it is, how soon it can be used,
// how many frames a second it draws while everything changes.

import type { Page } from "playwright-core";
import { compress } from "../src/dashboard/handler.ts";
import { launchBrowser } from "../test/browser/browser.ts";
import { buildDashboard } from "../web/build.ts";
import { FakeFleet } from "./fake-fleet.ts";
import { serveFake } from "./fake-orchestrator.ts";

export interface FrameMeasurement {
  readonly framesPerSecond: number;
  /** The slowest hundredth of frames took longer. */
  readonly frameMsP99: number;
  /** Processor time of the main thread for one frame; 16.6 ms is all there is at 60 frames a second. */
  readonly cpuMsPerFrame: number;
}

export interface DashboardMeasurement extends FrameMeasurement {
  readonly pnodes: number;
  readonly vnodes: number;
  readonly bundleBytes: number;
  /** From navigation until all VNodes stand on the graph and the main thread is free. */
  readonly interactiveMs: number;
}

const warmMs = 2_000;
const measuredMs = 6_000;
const stepMs = 100;

export async function runDashboardBench(size = 200): Promise<DashboardMeasurement> {
  const files = await buildDashboard();
  let bundleBytes = 0;
  for (const { bytes } of files.values()) bundleBytes += (await compress(bytes, "br")).byteLength;
  const fleet = new FakeFleet({ pnodes: size, vnodes: size, lossEvery: 40 });
  const server = await serveFake(fleet, files, stepMs);
  const browser = await launchBrowser();
  try {
    const url = `http://${server.address}/`;
    const page = await browser.newPage({ viewport: { width: 1440, height: 1000 } });
    // The first visit compresses the files; what is measured is the page, with an empty cache all the same.
    await (await fetch(url)).text();
    for (const path of files.keys()) await (await fetch(new URL(path, url))).bytes();
    await page.goto(url);
    const interactiveMs = await page.evaluate(untilInteractive, size);
    await page.waitForTimeout(warmMs);
    const frames = await measureFrames(page, measuredMs);
    return { pnodes: size, vnodes: size, bundleBytes, interactiveMs, ...frames };
  } finally {
    await browser.close();
    await server.close();
  }
}

export async function measureFrames(page: Page, durationMs: number): Promise<FrameMeasurement> {
  const devtools = await page.context().newCDPSession(page);
  // Processor time, whatever else the machine does meanwhile.
  await devtools.send("Performance.enable", { timeDomain: "threadTicks" });
  const before = await devtools.send("Performance.getMetrics");
  const gapsMs = await page.evaluate(countFrames, durationMs);
  const after = await devtools.send("Performance.getMetrics");
  const cpuSeconds = metricOf(after.metrics, "TaskDuration") - metricOf(before.metrics, "TaskDuration");
  const sorted = gapsMs.toSorted((a, b) => a - b);
  return {
    framesPerSecond: gapsMs.length / (gapsMs.reduce((sum, ms) => sum + ms, 0) / 1000),
    frameMsP99: sorted[Math.floor(sorted.length * 0.99)] ?? 0,
    cpuMsPerFrame: (1000 * cpuSeconds) / gapsMs.length,
  };
}

function metricOf(metrics: readonly { name: string; value: number }[], name: string): number {
  return metrics.find((metric) => metric.name === name)?.value ?? 0;
}

/** Runs in the page. */
function untilInteractive(vnodes: number): Promise<number> {
  return new Promise((resolve) => {
    const look = () => {
      const placed = document.querySelectorAll("[data-vnode][data-host]").length;
      // A task of our own gets its turn at once: the page can answer its user.
      if (placed >= vnodes) setTimeout(() => resolve(performance.now()), 0);
      else requestAnimationFrame(look);
    };
    look();
  });
}

/** Runs in the page: the milliseconds between animation frames. */
function countFrames(durationMs: number): Promise<number[]> {
  return new Promise((resolve) => {
    const gaps: number[] = [];
    const begunMs = performance.now();
    let lastMs = begunMs;
    const frame = (nowMs: number) => {
      gaps.push(nowMs - lastMs);
      lastMs = nowMs;
      if (nowMs - begunMs < durationMs) requestAnimationFrame(frame);
      else resolve(gaps.slice(1));
    };
    requestAnimationFrame(frame);
  });
}

export async function dashboardReport(_: readonly string[], log: (line: string) => void): Promise<string> {
  const rows: DashboardMeasurement[] = [];
  for (const size of [20, 200]) {
    log(`${size} PNodes and VNodes`);
    rows.push(await runDashboardBench(size));
  }
  const lines = rows.map(
    (row) =>
      `| ${row.pnodes} | ${row.vnodes} | ${(row.bundleBytes / 1024).toFixed(0)} KB | ${row.interactiveMs.toFixed(0)} ms | ` +
      `${row.framesPerSecond.toFixed(1)} | ${row.frameMsP99.toFixed(0)} ms | ${row.cpuMsPerFrame.toFixed(1)} ms |`,
  );
  return [
    "Headless Chromium, software rendering, on the machine that also serves; all steps, loads and hosts change 4 times a second.",
    "",
    "| PNodes | VNodes | bundle, brotli | interactive | frames/s | slowest 1 % | main thread CPU per frame |",
    "|---|---|---|---|---|---|---|",
    ...lines,
  ].join("\n");
}
