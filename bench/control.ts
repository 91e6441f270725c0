// The control plane's figures in one table: placement, failover, heartbeats.

import { runFailoverBench } from "./failover.ts";
import { runHeartbeatBench } from "./heartbeats.ts";
import { runPlacementBench } from "./placement.ts";

export async function controlReport(_args: readonly string[], log: (line: string) => void): Promise<string> {
  log("placing");
  const placement = runPlacementBench();
  log("killing 50 PNodes");
  const failover = await runFailoverBench();
  log("beating");
  const heartbeats = await runHeartbeatBench();
  const rows: [string, string, string][] = [
    ...placement.sessions.map((one): [string, string, string] => [
      `placement on ${one.pnodes} PNodes, sessions of 8 VNodes, one GPU reserved per PNode`,
      `${one.vnodesPerSecond} VNodes/s (${one.microsecondsPerVNode} µs each) in the fastest of 15 rounds, ${one.vnodesPerSecondUsually} in the middle one`,
      one.pnodes === 5_000 ? ">= 20,000/s" : "",
    ]),
    ...placement.single.map(({ pnodes, vnodesPerSecond, placed, stretchMs }): [string, string, string] => [
      `one plan of 5,000 VNodes on ${pnodes} PNodes, every fifth needs a GPU (${placed} fit)`,
      `${vnodesPerSecond} VNodes/s, ${stretchMs} ms at a stretch`,
      "<= 50 ms",
    ]),
    [
      `slowest stage against exhaustive search, ${placement.quality.instances} small instances`,
      `worst ${placement.quality.worst.toFixed(3)}, mean ${placement.quality.mean.toFixed(4)}`,
      "<= 1.10, 1.03",
    ],
    [
      `failover of ${failover.vnodes} VNodes of ${failover.pnodesLost} PNodes (400 ms grace included)`,
      `${failover.virtualMs} ms of virtual time, ${failover.cpuMs} ms of CPU`,
      "< 2 s",
    ],
    ...heartbeats.map(
      ({ path, pnodes, kilobytesPerPNode, microsecondsPerHeartbeat, pnodesPerCore }): [string, string, string] => [
        path === "grpc" ? `${pnodes} PNodes over HTTP/2, a connection each` : `${pnodes} PNodes, handlers alone`,
        `${kilobytesPerPNode} KB each, ${microsecondsPerHeartbeat} µs a heartbeat: ${pnodesPerCore} a core at one in 10 s`,
        path === "grpc" ? ">= 20,000, <= 120 KB" : "",
      ],
    ),
  ];
  return [
    "| what | measured (CPU time) | target |",
    "|---|---|---|",
    ...rows.map((row) => `| ${row.join(" | ")} |`),
  ].join("\n");
}
