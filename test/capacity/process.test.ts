// Machines on demand from this machine: the whole way with real processes. The orchestrator is killed in the middle, too.

import { test } from "node:test";
import { comeTrainDieAndGo, pidsOf, withOrchestrator } from "./scenario.ts";

test("PNodes come as processes when work waits, are replaced when they are killed, and go when they are idle", () =>
  withOrchestrator("process", (world) =>
    comeTrainDieAndGo(
      world,
      {
        ...{ name: "here", kind: "process" },
        offers: [{ name: "small", cores: 1, memoryBytes: 1n << 30n, most: 2, bootSeconds: 20 }],
      },
      async ({ id }) => {
        for (const pid of await pidsOf(id)) process.kill(pid, "SIGKILL");
      },
      async () => (await pidsOf(`${world.directory}/provided`)).length,
    ),
  ));
