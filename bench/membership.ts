// `npm run bench -- membership`: what gossip costs and how well it knows, with 1,000 and 10,000 members in one process on virtual
// time. `--quick` takes a tenth of the time of the runs.

import { Fleet, type FleetOptions } from "./membership/fleet.ts";
import { measureCall } from "./membership/wire-cost.ts";

interface Run {
  readonly what: string;
  readonly members: number;
  readonly seconds: number;
  readonly crashes: number;
  readonly loss: number;
  readonly slow: number;
}

const warmUpMs = 20_000;
/** The last crash is so long before the end that everybody can have heard of it. */
const tailMs = 60_000;

function runFleet({ members, seconds, crashes, loss, slow }: Run, callBytes: FleetOptions["callBytes"]): string[] {
  const cpu = process.cpuUsage();
  const fleet = new Fleet({ members, seed: 1, loss, slow, callBytes });
  fleet.run(warmUpMs);
  const [bytesBefore, messagesBefore] = [fleet.sentBytes(), fleet.messages()];
  const gapMs = Math.max(0, seconds * 1_000 - tailMs) / crashes;
  for (let crash = 0, index = 7; crash < crashes; crash++, index += 13) {
    while (!fleet.isResponsive(index % members) || fleet.crashes.has(index % members)) index += 1;
    fleet.crash(index % members);
    fleet.run(fleet.nowMs + gapMs);
  }
  fleet.run(warmUpMs + seconds * 1_000);
  const first = [...fleet.crashes.values()].map(({ firstMs }) => firstMs ?? Number.POSITIVE_INFINITY);
  const most = [...fleet.crashes.values()].map(({ mostMs }) => mostMs ?? Number.POSITIVE_INFINITY);
  const wrong = [...fleet.wrong.values()];
  const perMember = (total: number) => total / members / seconds;
  const hours = (members * seconds) / 3_600;
  return [
    `${(perMember(fleet.sentBytes() - bytesBefore) / 1_000).toFixed(2)} KB/s, ${perMember(fleet.messages() - messagesBefore).toFixed(1)} messages/s`,
    `${at(first, 0.5)} / ${at(first, 0.99)} s`,
    `${at(most, 0.5)} / ${at(most, 0.99)} s`,
    `${wrong.filter((one) => !one.slow).length} and ${wrong.filter((one) => one.slow).length} in ${Math.round(hours)} member-hours`,
    `${fleet.agreeing()} of ${members - crashes}`,
    `${(process.cpuUsage(cpu).user / 1e6).toFixed(0)} s`,
  ];
}

function at(values: number[], share: number): string {
  const sorted = [...values].sort((one, other) => one - other);
  const value = sorted[Math.min(sorted.length - 1, Math.floor(share * sorted.length))] as number;
  return (value / 1_000).toFixed(1);
}

/** Half of the members lose the other half for two minutes. */
function runSplit(members: number, callBytes: FleetOptions["callBytes"]): string {
  const fleet = new Fleet({ members, seed: 2, loss: 0.05, slow: 0, callBytes });
  fleet.run(warmUpMs);
  fleet.split((index) => index % 2);
  fleet.run(fleet.nowMs + 120_000);
  const buried = fleet.processes.filter(({ swim }) => swim.roster.here < 0.55 * members).length;
  fleet.split(() => 0);
  const healedMs = fleet.nowMs;
  const bytesBefore = fleet.sentBytes();
  let doneMs: number | undefined;
  while (doneMs === undefined && fleet.nowMs < healedMs + 600_000) {
    fleet.run(fleet.nowMs + 500);
    if (fleet.agreeing() === members) doneMs = fleet.nowMs - healedMs;
  }
  const bytes = (fleet.sentBytes() - bytesBefore) / members / 1_000;
  const end = doneMs === undefined ? "never" : `after ${(doneMs / 1_000).toFixed(1)} s`;
  return `${members} members in two halves for 120 s (5 % loss): ${buried} had buried the other half; all know all again ${end}, for ${bytes.toFixed(0)} KB sent by each.`;
}

export async function membershipReport(args: readonly string[], log: (line: string) => void): Promise<string> {
  const share = args.includes("--quick") ? 0.1 : 1;
  const callBytes = await measureCall();
  log(`an empty call takes ${callBytes.request} bytes there and ${callBytes.response} back`);
  const seconds = (least: number) => Math.max(120, Math.round(least * share));
  const faulty = { loss: 0.05, slow: 0.02 };
  const runs: Run[] = [
    { what: "1,000, nothing wrong", members: 1_000, seconds: seconds(300), crashes: 20, loss: 0, slow: 0 },
    {
      what: "1,000, 5 % loss, 2 % slow",
      members: 1_000,
      seconds: seconds(3_600),
      crashes: Math.max(20, Math.round(100 * share)),
      ...faulty,
    },
    {
      what: "10,000, 5 % loss, 2 % slow",
      members: 10_000,
      seconds: seconds(360),
      crashes: Math.max(20, Math.round(60 * share)),
      ...faulty,
    },
  ];
  const rows = runs.map((run) => {
    log(`${run.what}: ${run.seconds} s of virtual time`);
    const row = runFleet(run, callBytes);
    log(row.join("; "));
    return `| ${run.what} | ${row.join(" | ")} |`;
  });
  log("a split");
  return [
    "Production decisions (`src/membership`) on virtual time; messages are counted as the bytes that they would take, an empty call as measured over real",
    `connections (${callBytes.request} bytes there, ${callBytes.response} back, TLS and HTTP/2 included). Loss is of whole messages, which a call does not survive. A slow machine stalls for 0.5 to 5 s`,
    "more than half of the time. Dead: first declared by anybody; known: to 99 % of the living.",
    "",
    "| members | sent by each | dead p50 / p99 | known p50 / p99 | living buried: responsive and slow | agree at the end | CPU |",
    "|---|---|---|---|---|---|---|",
    ...rows,
    "",
    "Targets with 5 % loss and 2 % slow machines: at most 3 KB/s, p99 of 30 s, one responsive member in 1,000 member-hours.",
    "",
    runSplit(1_000, callBytes),
  ].join("\n");
}
