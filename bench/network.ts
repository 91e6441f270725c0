// Training through the network, two PNodes with one worker each, against one PNode with two workers: what streams,
// hashes and the pipeline's ends cost. The two take turns every few seconds, so that whatever else the machine does, and
// however fast it is at the moment, hits both.

import { Lab, type Stretch, type Trained, trained } from "./lab.ts";
import { median } from "./side.ts";

export interface NetworkBenchRow {
  readonly network: Trained;
  readonly microbatches: number;
  /** Of two PNodes. */
  readonly tokensPerSecond: number;
  /** Speed of two PNodes as a share of that of one with as many workers: the median of turns. */
  readonly share: number;
  /** CPU time of a step on two PNodes over that on one. */
  readonly cpuShare: number;
  /** Of the time that two PNodes trained: what VNodes waited for samples, added up. */
  readonly dataWaitShare: number;
}

interface Options {
  readonly turns: number;
  readonly windowMs: Readonly<Record<Trained, number>>;
  readonly networks: readonly Trained[];
}

interface Turn {
  readonly one: Stretch;
  readonly two: Stretch;
}

/** With eight microbatches. */
const targets = { "gpt-demo": ">= 92 %", t1: ">= 98 %" };

/** T1's steps take more than a second. */
const windowMsUsual = { "gpt-demo": 3_000, t1: 12_000 };

export async function runNetworkBench(
  { turns, windowMs, networks }: Options = { turns: 9, windowMs: windowMsUsual, networks: ["gpt-demo", "t1"] },
  log: (line: string) => void = () => {},
): Promise<NetworkBenchRow[]> {
  const rows: NetworkBenchRow[] = [];
  const labs = { one: await Lab.open(1, 2), two: await Lab.open(2, 1) };
  try {
    for (const network of networks) {
      for (const lab of Object.values(labs)) await lab.prepare(network);
      for (const microbatches of [8, 4]) {
        const batch = trained[network].samples * microbatches;
        // What checks cost is another question (`npm run bench -- trust`): two PNodes of two owners would audit each other.
        const settings = { batch, microbatches, checkpointEvery: 20, assurance: "none" };
        const one = await labs.one.ready(network, settings);
        const two = await labs.two.ready(network, { ...settings, spread: 2 });
        const measured: Turn[] = [];
        for (let turn = 0; turn < turns; turn++) {
          measured.push({
            one: await labs.one.window(one, windowMs[network]),
            two: await labs.two.window(two, windowMs[network]),
          });
          log(`${network}, ${microbatches}: ${JSON.stringify(measured.at(-1))}`);
        }
        await labs.one.client.sessions.delete(one);
        await labs.two.client.sessions.delete(two);
        rows.push(rowOf(network, microbatches, measured));
      }
    }
  } finally {
    for (const lab of Object.values(labs)) await lab.close();
  }
  return rows;
}

function rowOf(network: Trained, microbatches: number, turns: readonly Turn[]): NetworkBenchRow {
  const tokens = microbatches * trained[network].samples * trained[network].tokens;
  const sum = (side: keyof Turn, what: keyof Stretch) => turns.reduce((total, turn) => total + turn[side][what], 0);
  const speed = ({ steps, wallMs }: Stretch) => steps / wallMs;
  const cpuOf = (side: keyof Turn) => sum(side, "cpuMs") / sum(side, "steps");
  return {
    network,
    microbatches,
    tokensPerSecond: (1000 * tokens * sum("two", "steps")) / sum("two", "wallMs"),
    share: median(turns.map(({ one, two }) => speed(two) / speed(one))),
    cpuShare: cpuOf("two") / cpuOf("one"),
    dataWaitShare: sum("two", "dataWaitMs") / sum("two", "wallMs"),
  };
}

export async function networkReport(args: readonly string[], log: (line: string) => void): Promise<string> {
  const networks = (["gpt-demo", "t1"] as const).filter((name) =>
    args.every((arg) => !(arg in trained) || arg === name),
  );
  const turns = args.includes("--quick") ? 5 : 9;
  const rows = await runNetworkBench({ turns, windowMs: windowMsUsual, networks }, log);
  return [
    `Two PNodes with one worker each against one PNode with two workers, real processes on one machine, ${turns} turns of some seconds each.`,
    "",
    "| network | microbatches | tokens/s on two | speed, two / one | target | CPU of a step, two / one | waits for data (< 2 %) |",
    "|---|---|---|---|---|---|---|",
    ...rows.map(({ network, microbatches, tokensPerSecond, share, cpuShare, dataWaitShare }) => {
      const target = microbatches === 8 ? targets[network] : "";
      const cells = [trained[network].title, microbatches, Math.round(tokensPerSecond).toLocaleString("en")];
      const percent = (value: number, digits = 0) => `${(100 * value).toFixed(digits)} %`;
      return `| ${[...cells, percent(share), target, cpuShare.toFixed(2), percent(dataWaitShare, 2)].join(" | ")} |`;
    }),
  ].join("\n");
}
