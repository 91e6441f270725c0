// `npm start`: the whole story in about a minute and a half. Real processes train a small language model, one of
// them is killed on the way, the others carry on, the weights are compared with those of a run that nobody disturbed,
// and then the model is asked to go on with a sentence.

import { readFileSync } from "node:fs";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Client } from "../../../client/client.ts";
import type { Session } from "../../../protocol/gen/dcnr/v1/session_pb.ts";
import type { Command } from "../../command.ts";
import { ensureDataset } from "../../content/builtin.ts";
import { demoRate } from "../../content/demo-rate.ts";
import { compareRoots, keptRoot, type Undisturbed } from "../../content/demo-root.ts";
import { printAnswer } from "../../flags/generation.ts";
import { LocalNetwork } from "../../machine/local-network.ts";
import { type Child, untilAborted } from "../../machine/processes.ts";
import { packagePath } from "../../machine/software.ts";
import type { Output } from "../../shown/output.ts";
import { follow, showSession } from "../../shown/sessions.ts";

/** Where in the session the kill happens: late enough to have something to lose. */
const killShare = 0.4;
const prompt = "The whale";

export const command: Command = {
  summary: "The whole story: start a network, train a small GPT on Moby Dick, kill a PNode, recover, let it speak.",
  options: {
    steps: { type: "number", least: 1, summary: "steps to train", default: 600 },
    listen: { type: "string", value: "ADDRESS", summary: "where the orchestrator listens", default: "127.0.0.1:0" },
    "no-kill": { type: "boolean", summary: "let everybody live; the step root is the same" },
    numerics: {
      type: "string",
      value: "NAME",
      summary: "portable (the same bits on every machine, so that its root is known) or native (faster)",
      default: "portable",
    },
    compare: { type: "boolean", summary: "train once more with nobody killed, and compare the step roots" },
  },
  examples: ["npm start", "dcnr demo --steps 100 --no-kill", "dcnr demo --steps 200 --compare"],
  run: async ({ flags, out, signal }) => {
    const settings = { steps: flags.number("steps"), numerics: flags.text("numerics") };
    const kill = !flags.is("no-kill");
    return withNetwork(flags.text("listen"), out, async (client, network) => {
      out.note(`dashboard: http://${network.orchestrator.address}`);
      const session = await train(client, network, out, signal, { ...settings, kill });
      if (!session || signal.aborted) return 130;
      if (flags.is("json")) out.json(session);
      else showSession(out, session);
      if (session.status !== "done") return 1;
      const undisturbed = flags.is("compare") ? await trainAgain(out, signal, settings) : keptRoot(session);
      if (signal.aborted) return 130;
      if (flags.is("json")) return undisturbed && undisturbed.root !== session.stepRoot ? 1 : 0;
      if (!compareRoots(out, session, undisturbed)) return 1;
      await speak(client, session, out, signal);
      if (process.stdout.isTTY && !signal.aborted) await linger(network, out, signal);
      return 0;
    });
  },
};

async function withNetwork<T>(
  listen: string,
  out: Output,
  use: (client: Client, network: LocalNetwork) => Promise<T>,
): Promise<T> {
  const directory = await mkdtemp(join(tmpdir(), "dcnr-demo-"));
  out.note("starting an orchestrator and three PNodes, each a process of its own ...");
  const network = await LocalNetwork.start({ directory, listen, pnodes: 3, cpusPerPNode: 1, logLevel: "error" });
  const client = new Client(network.orchestrator.address, { fetch });
  try {
    return await use(client, network);
  } finally {
    await client.close();
    await network.stop();
    await rm(directory, { recursive: true, force: true });
  }
}

interface DemoSettings {
  readonly steps: number;
  readonly numerics: string;
}

/** The same session on a network of its own, in which nobody is killed. */
function trainAgain(out: Output, signal: AbortSignal, settings: DemoSettings): Promise<Undisturbed | undefined> {
  out.note("once more, with nobody killed:");
  return withNetwork("127.0.0.1:0", out, async (client, network) => {
    const session = await train(client, network, out, signal, { ...settings, kill: false });
    return session?.status === "done" ? { root: session.stepRoot, from: "trained just now" } : undefined;
  });
}

async function train(
  client: Client,
  network: LocalNetwork,
  out: Output,
  signal: AbortSignal,
  { steps, numerics, kill }: DemoSettings & { readonly kill: boolean },
): Promise<Session | undefined> {
  const created = await client.networks.create(readFileSync(packagePath("examples/gpt-demo.yaml"), "utf8"));
  out.note(`network ${created.id}: ${created.parameters.toLocaleString("en")} parameters in ${created.vnodes} VNodes`);
  await ensureDataset(client, "moby-dick", out);
  const { id } = await client.sessions.create({
    network: created.id,
    dataset: "moby-dick",
    steps: BigInt(steps),
    batch: 16,
    microbatches: 4,
    seed: 1n,
    numerics,
    checkpointEvery: 20,
    validateEvery: Math.max(1, Math.floor(steps / 3)),
    spread: 3,
    clipNorm: 1,
    learningRate: { ...demoRate, warmupSteps: BigInt(demoRate.warmupSteps) },
  });
  let killed = !kill;
  return follow(client, id, out, signal, (session) => {
    if (killed || Number(session.step) < killShare * steps) return;
    killed = true;
    void killOneThatWorks(client, network.pnodes, out, session);
  });
}

async function killOneThatWorks(
  client: Client,
  pnodes: readonly Child[],
  out: Output,
  session: Session,
): Promise<void> {
  const hosts = new Set((await client.fleet.vnodes(session.id)).map(({ pnode }) => pnode));
  const victim = pnodes.find(({ id }) => hosts.has(id));
  if (!victim) return;
  out.note(out.tone("bad", `  killing PNode ${victim.name} (pid ${victim.pid}) at step ${session.step} ...`));
  victim.kill("SIGKILL");
}

async function speak(client: Client, session: Session, out: Output, signal: AbortSignal): Promise<void> {
  const model = await client.models.serve(session.id);
  out.line();
  out.note(`served as ${model.name}; going on with "${prompt}":`);
  out.raw(prompt);
  await printAnswer(
    client,
    model.name,
    prompt,
    { maxTokens: 58, temperature: 0.5, topK: 30, seed: 7, signal },
    out,
    false,
  );
}

async function linger(network: LocalNetwork, out: Output, signal: AbortSignal): Promise<void> {
  const { address } = network.orchestrator;
  out.line();
  out.line(`The network stays up: http://${address}`);
  out.advice(`Try, in another terminal: dcnr chat gpt-demo --orchestrator ${address}`);
  out.line("Ctrl-C ends it.");
  await untilAborted(signal);
}
