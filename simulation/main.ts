// `dcnr simulate`: runs many seeds, shows how far it is, and ends with what was injected and what broke.

import { availableParallelism } from "node:os";
import { simulateSeeds, type WorldKind } from "./pool.ts";
import { describe, replayCommand, type SimulationReport } from "./report.ts";
import { runSeed } from "./run.ts";
import { shrink, tell } from "./shrink.ts";

export interface SimulationOptions {
  readonly seeds: number;
  readonly firstSeed: number;
  /** One seed alone, with its readable trace. */
  readonly replay?: number;
  readonly kind?: WorldKind;
  readonly json?: boolean;
  readonly workers?: number;
  readonly signal?: AbortSignal;
}

/** The part of a command's output that the simulator needs. */
export interface Printer {
  line(text?: string): void;
  json(value: unknown): void;
  progress(done: number, total: number, detail: string): void;
}

/** Returns the exit code: 0 if every seed held, 1 if any failed. */
export async function runSimulation(options: SimulationOptions, print: Printer): Promise<number> {
  if (options.replay !== undefined) return replay(options.replay, options, print);
  const report = await simulate(options, (done, detail) => print.progress(done, options.seeds, detail));
  if (options.json) print.json(report);
  else {
    for (const line of describe(report, flagsOf(options.kind))) print.line(line);
    await tellStory(report, options.kind, print);
  }
  return report.divergences + report.hangs + report.others > 0 ? 1 : 0;
}

export function simulate(
  options: Pick<SimulationOptions, "seeds" | "firstSeed" | "kind" | "workers" | "signal">,
  onProgress: (done: number, detail: string) => void = () => {},
): Promise<SimulationReport> {
  const seeds = Array.from({ length: options.seeds }, (_, index) => options.firstSeed + index);
  return simulateSeeds({
    seeds,
    ...(options.kind && { kind: options.kind }),
    workers: options.workers ?? Math.max(1, availableParallelism()),
    signal: options.signal,
    onProgress: (done, summary) => {
      const { faultCount, virtualHours, divergences, hangs, others, failures } = summary.report();
      // Long runs need hours: whoever looks into one that failed need not wait for the end.
      const seedsBroken = failures.length > 0 ? ` (seeds ${failures.map(({ seed }) => seed).join(" ")})` : "";
      const broken = `${others > 0 ? `, ${others} other violations` : ""}${seedsBroken}`;
      onProgress(
        done,
        `${faultCount} faults, ${virtualHours.toFixed(1)} virtual hours, ${divergences} divergences, ${hangs} hangs${broken}`,
      );
    },
  });
}

/** What little it takes to break the first seed that failed. */
async function tellStory(
  { failures: [first] }: Pick<SimulationReport, "failures">,
  kind: WorldKind | undefined,
  print: Printer,
): Promise<void> {
  const shrunk = first && (await shrink(first.seed, { ...(kind && { kind }) }));
  if (!shrunk) return;
  print.line();
  for (const line of tell(shrunk)) print.line(line);
}

/** One seed, told in full. */
async function replay(
  seed: number,
  { json, kind }: Pick<SimulationOptions, "json" | "kind">,
  print: Printer,
): Promise<number> {
  const report = await runSeed(seed, { ...kind, readable: true });
  if (json) {
    print.json(report);
  } else {
    print.line(report.trace);
    print.line();
    print.line(
      `seed ${seed}: ${report.scenario}, ${(report.virtualMs / 1000).toFixed(1)} virtual seconds, trace ${report.traceHash}`,
    );
    for (const { kind, atMs, message } of report.violations)
      print.line(`${kind} at ${(atMs / 1000).toFixed(3)} s: ${message}`);
    if (report.violations.length === 0) print.line("all checks hold");
    await tellStory({ failures: report.violations.length > 0 ? [report] : [] }, kind, print);
    print.line(`replay: ${replayCommand(seed, flagsOf(kind))}`);
  }
  return report.violations.length > 0 ? 1 : 0;
}

function flagsOf(kind: WorldKind | undefined): string {
  return `${kind?.autonomy ? " --autonomy" : ""}${kind?.lanes ? " --lanes" : ""}`;
}
