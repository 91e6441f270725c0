// `npm start`: the whole story in about a minute. Real processes train a network, one of them is killed on
// the way, the others carry on, and the step root is what it would have been anyway.

import { readFileSync } from "node:fs";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Client } from "../../client/client.ts";
import type { Session } from "../../protocol/gen/dcnr/v1/session_pb.ts";
import { ensureDataset } from "../builtin.ts";
import type { Command } from "../command.ts";
import { LocalNetwork } from "../local-network.ts";
import type { Output } from "../output.ts";
import { untilAborted } from "../processes.ts";
import { follow, showSession } from "../sessions.ts";
import { packagePath } from "../software.ts";

/** Where in the session the kill happens: late enough to have something to lose. */
const killShare = 0.4;

export const command: Command = {
  summary: "The whole story in a minute: start a network, train, kill a PNode, recover, print the step root.",
  options: {
    steps: { type: "number", summary: "steps to train", default: 400 },
    listen: { type: "string", value: "ADDRESS", summary: "where the orchestrator listens", default: "127.0.0.1:0" },
    "no-kill": { type: "boolean", summary: "let everybody live" },
  },
  examples: ["npm start", "dcnr demo --steps 100 --no-kill"],
  run: async ({ flags, out, signal }) => {
    const directory = await mkdtemp(join(tmpdir(), "dcnr-demo-"));
    out.note("starting an orchestrator and three PNodes, each a process of its own ...");
    const network = await LocalNetwork.start({
      directory,
      listen: flags.text("listen"),
      pnodes: 3,
      cpusPerPNode: 1,
      logLevel: "warn",
    });
    const client = new Client(network.orchestrator.address, { fetch });
    try {
      out.note(`dashboard: http://${network.orchestrator.address}`);
      const session = await train(client, network, out, signal, flags.number("steps"), !flags.is("no-kill"));
      if (!session) return 130;
      if (flags.is("json")) out.json(session);
      else showSession(out, session);
      if (process.stdout.isTTY && !signal.aborted) await linger(network, out, signal);
      return session.status === "done" ? 0 : 1;
    } finally {
      await client.close();
      await network.stop();
      await rm(directory, { recursive: true, force: true });
    }
  },
};

async function train(
  client: Client,
  network: LocalNetwork,
  out: Output,
  signal: AbortSignal,
  steps: number,
  kill: boolean,
): Promise<Session | undefined> {
  const created = await client.networks.create(readFileSync(packagePath("examples/mlp.yaml"), "utf8"));
  out.note(`network ${created.id}: ${created.parameters.toLocaleString("en")} parameters in ${created.vnodes} VNodes`);
  await ensureDataset(client, "mnist", out);
  const { id } = await client.sessions.create({
    network: created.id,
    dataset: "mnist",
    split: "train",
    validationSplit: "validation",
    steps: BigInt(steps),
    batch: 64,
    microbatches: 4,
    seed: 1n,
    numerics: "native",
    checkpointEvery: 20,
    validateEvery: Math.max(1, Math.floor(steps / 4)),
    learningRate: { schedule: "cosine", base: 0.002, warmupSteps: 20n, finalShare: 0.1 },
  });
  const victim = network.pnodes[1];
  let killed = !kill;
  return follow(client, id, out, signal, (session) => {
    if (killed || !victim || Number(session.step) < killShare * steps) return;
    killed = true;
    out.note(out.tone("bad", `killing PNode ${victim.name} (pid ${victim.pid}) at step ${session.step} ...`));
    victim.kill("SIGKILL");
  });
}

async function linger(network: LocalNetwork, out: Output, signal: AbortSignal): Promise<void> {
  const { address } = network.orchestrator;
  out.line();
  out.line(`The network stays up: http://${address}`);
  out.line(`Try, in another terminal: npx dcnr status --orchestrator ${address}`);
  out.line("Ctrl-C ends it.");
  await untilAborted(signal);
}
