// What a simulation found, seed by seed and in sum, as data and as lines for people.

import type { Violation } from "./checks/checkers.ts";
import { addFigures, type TrustFigures } from "./checks/trust-figures.ts";

export interface SeedReport {
  readonly seed: number;
  /** Which networks, how many PNodes and orchestrators, which policies. */
  readonly scenario: string;
  readonly sessions: number;
  /** Put to served models. */
  readonly questions: number;
  readonly violations: readonly Violation[];
  readonly faults: Readonly<Record<string, number>>;
  readonly virtualMs: number;
  readonly events: number;
  readonly traceHash: string;
  /** Of worlds in which some machines lie. */
  readonly trust?: TrustFigures;
  /** The readable trace, when it was asked for. */
  readonly trace?: string;
}

export interface SimulationReport {
  readonly seeds: number;
  readonly firstSeed: number;
  readonly faults: Readonly<Record<string, number>>;
  readonly faultCount: number;
  readonly sessions: number;
  readonly questions: number;
  readonly virtualHours: number;
  readonly events: number;
  readonly divergences: number;
  readonly hangs: number;
  /** Seeds that broke anything else: the fence, a bound, an error nobody caught. */
  readonly others: number;
  readonly trust?: TrustFigures;
  readonly failures: readonly SeedReport[];
}

/** More would be noise: the first failures tell enough. */
const failuresKept = 20;

export class Summary {
  readonly #firstSeed: number;
  readonly #faults = new Map<string, number>();
  readonly #failures: SeedReport[] = [];
  #seeds = 0;
  #virtualMs = 0;
  #events = 0;
  #sessions = 0;
  #questions = 0;
  #divergences = 0;
  #hangs = 0;
  #others = 0;
  #trust: TrustFigures | undefined;

  constructor(firstSeed: number) {
    this.#firstSeed = firstSeed;
  }

  add(report: SeedReport): void {
    this.#seeds += 1;
    this.#virtualMs += report.virtualMs;
    this.#events += report.events;
    this.#sessions += report.sessions;
    this.#questions += report.questions;
    this.#trust = addFigures(this.#trust, report.trust);
    for (const [kind, count] of Object.entries(report.faults))
      this.#faults.set(kind, (this.#faults.get(kind) ?? 0) + count);
    if (report.violations.length === 0) return;
    const kinds = new Set(report.violations.map(({ kind }) => kind));
    if (kinds.has("divergence")) this.#divergences += 1;
    else if (kinds.has("hang")) this.#hangs += 1;
    else this.#others += 1;
    if (this.#failures.length < failuresKept) this.#failures.push(report);
  }

  get failed(): number {
    return this.#divergences + this.#hangs + this.#others;
  }

  report(): SimulationReport {
    const faults = Object.fromEntries([...this.#faults].sort(([a], [b]) => (a < b ? -1 : 1)));
    return {
      seeds: this.#seeds,
      firstSeed: this.#firstSeed,
      faults,
      sessions: this.#sessions,
      questions: this.#questions,
      faultCount: Object.values(faults).reduce((sum, count) => sum + count, 0),
      virtualHours: this.#virtualMs / 3_600_000,
      events: this.#events,
      divergences: this.#divergences,
      hangs: this.#hangs,
      others: this.#others,
      ...(this.#trust && { trust: this.#trust }),
      failures: this.#failures.toSorted((a, b) => a.seed - b.seed),
    };
  }
}

/** The command that runs one seed again, with its trace. */
/** `flags`: those that make the seed's world another one. */
export function replayCommand(seed: number, flags = ""): string {
  return `dcnr simulate --seed ${seed}${flags}`;
}

export function describe(report: SimulationReport, flags = ""): string[] {
  const lines = [
    `${report.seeds} seeds from ${report.firstSeed}: ${report.sessions} sessions, ${report.questions} questions, ${report.faultCount} faults in ${report.virtualHours.toFixed(1)} virtual hours`,
    ...Object.entries(report.faults).map(([kind, count]) => `  ${String(count).padStart(8)}  ${kind}`),
    `${report.divergences} divergences, ${report.hangs} hangs, ${report.others} other violations`,
  ];
  for (const failure of report.failures) {
    lines.push("", `seed ${failure.seed} (${failure.scenario}):`);
    for (const { kind, atMs, message } of failure.violations.slice(0, 5))
      lines.push(`  ${kind} at ${(atMs / 1000).toFixed(3)} s: ${message}`);
    lines.push(`  replay: ${replayCommand(failure.seed, flags)}`);
  }
  return lines;
}
