// How long machines that lie stay in where a tenth is checked, and how much of what is final is wrong: many runs of a session of 24 VNodes
// on a hundred machines by the production's own rules (simulation/lies/long-run.ts), until a million intervals of VNodes are final in the rows that have a target.

import { type LongRunFigures, type LongRunSettings, longRun } from "../simulation/lies/long-run.ts";

type Kind = Omit<LongRunSettings, "seed">;

interface Row {
  readonly what: string;
  readonly settings: Kind;
  /** Share of the runs that were asked for. */
  readonly share: number;
  readonly target: string;
}

const intervals = 1_500;
const usualRuns = 28;
const always = { intervals, liars: 30, lieShare: 1 };
const sleeping = { intervals, liars: 30, honestFor: 100 };
const constant = "<= 30 (p95), <= 30 in 10^6";

const rows: readonly Row[] = [
  {
    what: "nobody lies, 10,000 intervals",
    settings: { intervals: 10_000, liars: 0, honestFor: 0, lieShare: 0, cartel: false },
    share: 1 / usualRuns,
    target: "<= 12 % repeated",
  },
  { what: "30 lie always", settings: { ...always, honestFor: 0, cartel: false }, share: 1, target: constant },
  {
    what: "30 lie always after 100 honest intervals, and approve each other",
    settings: { ...always, honestFor: 100, cartel: true },
    share: 1,
    target: constant,
  },
  {
    what: "one lies always after 100 honest intervals",
    settings: { intervals, liars: 1, honestFor: 100, lieShare: 1, cartel: false },
    share: 1,
    target: constant,
  },
  {
    what: "30 lie in a tenth of their intervals after 100 honest ones, and approve each other",
    settings: { ...sleeping, lieShare: 0.1, cartel: true },
    share: 0.25,
    target: "",
  },
  {
    what: "30 lie once each after 100 honest intervals, and approve each other",
    settings: { ...sleeping, lieShare: 1, liesMost: 1, cartel: true },
    share: 0.25,
    target: "",
  },
];

/** `[RUNS [FIRST]] [--row TEXT]`: rows take long, so one can be run alone, and its seeds in pieces. */
export async function liesReport(args: readonly string[], log: (line: string) => void): Promise<string> {
  const [runs = usualRuns, first = 1] = args.filter((arg) => /^\d+$/.test(arg)).map(Number);
  const wanted = args.includes("--row") ? args[args.indexOf("--row") + 1] : undefined;
  const chosen = rows.filter(({ what }) => wanted === undefined || what.includes(wanted));
  const lines = chosen.map((row) => {
    const figures = Array.from({ length: Math.max(1, Math.round(runs * row.share)) }, (_, at) => {
      const seed = first + at;
      const one = longRun({ ...row.settings, seed });
      if (wanted !== undefined) log(`seed ${seed}: ${one.final} final, ${one.wrong} wrong`);
      return one;
    });
    const line = described(row, figures);
    log(line);
    return line;
  });
  return [
    "`sampled`, a tenth checked at least: 24 VNodes in a chain on 100 machines of which 5 are trusted, 1,500 intervals a run, 1 % of the owners leave in each interval. Draws, audits, disputes, standings, going back",
    "and finality are the production's; computing is one bit a VNode and interval. All machines begin as newcomers.",
    "",
    "| who lies | runs, final intervals of VNodes | out after (intervals since the first lie): median, p95, most | never found | wrong, and in 10^6 final ones | repeated / computed | computed again | honest machines out | target |",
    "|---|---|---|---|---|---|---|---|---|",
    ...lines,
  ].join("\n");
}

function described({ what, target }: Row, all: readonly LongRunFigures[]): string {
  const sum = (pick: (one: LongRunFigures) => number) => all.reduce((total, one) => total + pick(one), 0);
  const out = all.flatMap(({ untilOut }) => untilOut).sort((a, b) => a - b);
  const at = (share: number) => out[Math.max(0, Math.ceil(share * out.length) - 1)];
  const [final, wrong, computed] = [sum((one) => one.final), sum((one) => one.wrong), sum((one) => one.computed)];
  const percent = (part: number) => `${((100 * part) / computed).toFixed(1)} %`;
  const cells = [
    what,
    `${all.length}, ${final}`,
    out.length === 0 ? "" : `${at(0.5)}, ${at(0.95)}, ${at(1)}`,
    sum((one) => one.stillIn),
    wrong === 0 ? "0" : `${wrong}: ${((1e6 * wrong) / final).toFixed(1)}`,
    percent(sum((one) => one.repeated)),
    percent(computed - final),
    sum((one) => one.honestOut),
    target,
  ];
  return `| ${cells.join(" | ")} |`;
}
