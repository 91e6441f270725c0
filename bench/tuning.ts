// The tree of Parzen estimators beside Optuna's: median regret over seeds on three functions whose least is known. With
// OPTUNA_PYTHON naming a Python that has Optuna, both run now; without, Optuna's numbers are those that were measured before.

import { execFileSync } from "node:child_process";
import { join } from "node:path";
import { randomTrial } from "../src/tuning/search.ts";
import { parseSpace, type Settings, type Space } from "../src/tuning/space.ts";
import { type Outcome, tpeTrial } from "../src/tuning/tpe.ts";

interface TestFunction {
  readonly space: Space;
  /** 0 at its least. */
  readonly regret: (settings: Settings) => number;
}

const hartmannA = [
  [10, 3, 17, 3.5, 1.7, 8],
  [0.05, 10, 17, 0.1, 8, 14],
  [3, 3.5, 1.7, 10, 17, 8],
  [17, 8, 0.05, 10, 0.1, 14],
];
const hartmannP = [
  [1312, 1696, 5569, 124, 8283, 5886],
  [2329, 4135, 8307, 3736, 1004, 9991],
  [2348, 1451, 3522, 2883, 3047, 6650],
  [4047, 8828, 8732, 5743, 1091, 381],
];

const number = (settings: Settings, name: string) => settings[name] as number;

export const testFunctions: Readonly<Record<string, TestFunction>> = {
  branin: {
    space: parseSpace({ x: { uniform: [-5, 10] }, y: { uniform: [0, 15] } }),
    regret: (settings) => {
      const x = number(settings, "x");
      const bowl = number(settings, "y") - (5.1 / (4 * Math.PI ** 2)) * x * x + (5 / Math.PI) * x - 6;
      return bowl ** 2 + 10 * (1 - 1 / (8 * Math.PI)) * Math.cos(x) + 10 - 0.39788735772973816;
    },
  },
  hartmann6: {
    space: parseSpace(Object.fromEntries([0, 1, 2, 3, 4, 5].map((index) => [`x${index}`, { uniform: [0, 1] }]))),
    regret: (settings) => {
      const terms = [1, 1.2, 3, 3.2].map((weight, i) => {
        const distance = (hartmannA[i] as number[]).reduce(
          (sum, a, j) => sum + a * (number(settings, `x${j}`) - ((hartmannP[i] as number[])[j] as number) / 1e4) ** 2,
          0,
        );
        return weight * Math.exp(-distance);
      });
      return 3.322368011415512 - terms.reduce((sum, term) => sum + term, 0);
    },
  },
  training: {
    space: parseSpace({
      rate: { "log-uniform": [1e-5, 1] },
      width: { "log-integer": [8, 512] },
      kind: { choice: ["relu", "gelu", "tanh"] },
      decay: { "log-uniform": [1e-6, 1] },
    }),
    regret: (settings) => {
      const rate = Math.log10(number(settings, "rate")) + 2.5;
      const width = Math.log2(number(settings, "width")) - 7;
      const decay = Math.log10(number(settings, "decay")) + 3;
      const kind = { relu: 0.1, gelu: 0, tanh: 0.3 }[settings["kind"] as string] as number;
      return rate ** 2 * 0.3 + width ** 2 * 0.05 + kind + decay ** 2 * 0.05 * (1 + Math.abs(rate));
    },
  },
};

type Next = (space: Space, seed: number, trial: number, outcomes: readonly Outcome[]) => Settings;

/** After each of these numbers of trials, the median over the seeds of the best so far. */
export function medianRegrets(name: string, next: Next, trials: readonly number[], seeds: number): number[] {
  const { space, regret } = testFunctions[name] as TestFunction;
  const most = Math.max(...trials);
  const best = trials.map((): number[] => []);
  for (let seed = 0; seed < seeds; seed++) {
    const outcomes: Outcome[] = [];
    for (let trial = 0; trial < most; trial++) {
      const settings = next(space, seed, trial, outcomes);
      outcomes.push({ trial, settings, loss: regret(settings) });
    }
    trials.forEach((count, index) => {
      best[index]?.push(Math.min(...outcomes.slice(0, count).map(({ loss }) => loss)));
    });
  }
  return best.map(median);
}

function median(values: readonly number[]): number {
  const sorted = values.toSorted((a, b) => a - b);
  const middle = sorted.length >> 1;
  const upper = sorted[middle] as number;
  return sorted.length % 2 === 1 ? upper : (upper + (sorted[middle - 1] as number)) / 2;
}

type Measured = Readonly<Record<string, Readonly<Record<string, number>>>>;

/** Optuna 5.0.0, 50 seeds, by bench/peers/optuna_regret.py. */
const optunaBefore: Measured = {
  branin: { "50": 0.1539, "100": 0.02952 },
  hartmann6: { "50": 0.3647, "100": 0.09933 },
  training: { "50": 0.01822, "100": 0.002554 },
};

function optuna(seeds: number): Measured {
  const python = process.env["OPTUNA_PYTHON"];
  if (python === undefined) return optunaBefore;
  const script = join(import.meta.dirname, "peers", "optuna_regret.py");
  return JSON.parse(execFileSync(python, [script, String(seeds)], { encoding: "utf8" })) as Measured;
}

const after = [50, 100] as const;

export async function tuningReport(args: readonly string[], log: (line: string) => void): Promise<string> {
  const seeds = Number(args.find((one) => /^\d+$/.test(one)) ?? 50);
  const batches =
    (size: number): Next =>
    (space, seed, trial, outcomes) =>
      tpeTrial(space, seed, trial, outcomes.slice(0, Math.floor(trial / size) * size));
  log("Optuna");
  const peer = optuna(seeds);
  const lines = [
    `| median regret over ${seeds} seeds | random | TPE | TPE, batches of 4 | Optuna's TPE | TPE beside Optuna's (<= 1.5) |`,
    "|---|---|---|---|---|---|",
  ];
  for (const name of Object.keys(testFunctions)) {
    log(name);
    const random = medianRegrets(name, randomTrial, after, seeds);
    const own = medianRegrets(name, tpeTrial, after, seeds);
    const inBatches = medianRegrets(name, batches(4), after, seeds);
    after.forEach((trials, index) => {
      const theirs = peer[name]?.[String(trials)];
      const cells = [random[index], own[index], inBatches[index], theirs].map((one) => one?.toPrecision(3) ?? "");
      const ratio = theirs === undefined ? "" : ((own[index] as number) / theirs).toFixed(2);
      lines.push(`| ${name}, ${trials} trials | ${cells.join(" | ")} | ${ratio} |`);
    });
  }
  return lines.join("\n");
}
