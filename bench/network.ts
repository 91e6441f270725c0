// Training through the network, two PNodes with one worker each, against one PNode with two workers: what streams,
// hashes and the pipeline's ends cost. The two take turns, so that whatever else the machine does hits both.

import { Lab, type Pace, type Trained, trained } from "./lab.ts";
import { median } from "./side.ts";

export interface NetworkBenchRow {
  readonly network: Trained;
  readonly microbatches: number;
  /** Of two PNodes. */
  readonly tokensPerSecond: number;
  /** Speed of two PNodes as a share of that of one with as many workers. */
  readonly share: number;
  /** CPU time of a step on two PNodes over that on one. */
  readonly cpuShare: number;
}

interface Options {
  readonly turns: number;
  readonly steps: Readonly<Record<Trained, number>>;
  readonly networks: readonly Trained[];
}

export async function runNetworkBench(
  { turns, steps, networks }: Options = { turns: 3, steps: { "gpt-demo": 40, t1: 4 }, networks: ["gpt-demo", "t1"] },
  log: (line: string) => void = () => {},
): Promise<NetworkBenchRow[]> {
  const rows: NetworkBenchRow[] = [];
  const labs = { one: await Lab.open(1, 2), two: await Lab.open(2, 1) };
  try {
    for (const network of networks) {
      for (const lab of Object.values(labs)) await lab.prepare(network);
      for (const microbatches of [8, 4]) {
        const batch = trained[network].samples * microbatches;
        const settings = { batch, microbatches, checkpointEvery: 20 };
        const paces: { one: Pace; two: Pace }[] = [];
        for (let turn = 0; turn < turns; turn++) {
          const one = await labs.one.pace(network, settings, 2, steps[network]);
          const two = await labs.two.pace(network, { ...settings, spread: 2 }, 2, steps[network]);
          log(`${network}, ${microbatches}: one ${JSON.stringify(one)}, two ${JSON.stringify(two)}`);
          paces.push({ one, two });
        }
        rows.push({
          network,
          microbatches,
          tokensPerSecond: (1000 * batch * trained[network].tokens) / median(paces.map(({ two }) => two.stepMs)),
          share: median(paces.map(({ one, two }) => one.stepMs / two.stepMs)),
          cpuShare: median(paces.map(({ one, two }) => two.cpuStepMs / one.cpuStepMs)),
        });
      }
    }
  } finally {
    for (const lab of Object.values(labs)) await lab.close();
  }
  return rows;
}

export async function networkReport(args: readonly string[], log: (line: string) => void): Promise<string> {
  const quick = args.includes("--quick");
  const networks = (["gpt-demo", "t1"] as const).filter((name) =>
    args.every((arg) => !(arg in trained) || arg === name),
  );
  const steps = quick ? { "gpt-demo": 20, t1: 2 } : { "gpt-demo": 40, t1: 4 };
  const rows = await runNetworkBench({ turns: quick ? 2 : 3, steps, networks }, log);
  return [
    "Two PNodes with one worker each against one PNode with two workers, real processes on one machine, taking turns.",
    "",
    "| network | microbatches | tokens/s on two | speed, two / one | target | CPU of a step, two / one |",
    "|---|---|---|---|---|---|",
    ...rows.map(({ network, microbatches, tokensPerSecond, share, cpuShare }) => {
      const target = microbatches === 8 ? ">= 90 %" : ">= 80 %";
      const cells = [trained[network].title, microbatches, Math.round(tokensPerSecond).toLocaleString("en")];
      return `| ${[...cells, `${(100 * share).toFixed(0)} %`, target, cpuShare.toFixed(2)].join(" | ")} |`;
    }),
  ].join("\n");
}
