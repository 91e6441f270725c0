// `node docker-training.ts SOCKET IMAGE`, in the engine's network namespace: PNodes come as containers, train, lose one, and are
// gone. Everything that listens does so in the namespace alone.

import { execFile } from "node:child_process";
import { promisify } from "node:util";
import { bridgeAddress } from "./docker-engine.ts";
import { comeTrainDieAndGo, withOrchestrator } from "./scenario.ts";

const [socket = "", image = ""] = process.argv.slice(2);
const run = promisify(execFile);
const docker = async (...words: string[]) =>
  (await run("docker", ["-H", `unix://${socket}`, ...words])).stdout.trim().split("\n").filter(Boolean);

await withOrchestrator(
  "docker",
  (world) =>
    comeTrainDieAndGo(
      world,
      {
        ...{ name: "box", kind: "docker", parameters: { socket, image, reach: `${bridgeAddress}/24` } },
        offers: [{ name: "small", cores: 1, memoryBytes: 1n << 30n, most: 2, bootSeconds: 60 }],
      },
      async ({ id }) =>
        void (await docker("kill", ...(await docker("ps", "-q", "--filter", `label=dcnr.instance=${id}`)))),
      async () => (await docker("ps", "-aq", "--filter", "label=dcnr.provider=box")).length,
    ),
  (port) => ["--listen", `0.0.0.0:${port}`, "--advertise", `${bridgeAddress}:${port}`],
);
