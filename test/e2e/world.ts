// A network of real processes for tests, in a directory of its own, always stopped.

import { execFile } from "node:child_process";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { ensureDataset } from "../../src/cli/content/builtin.ts";
import { LocalNetwork } from "../../src/cli/machine/local-network.ts";
import { openOutput } from "../../src/cli/shown/output.ts";
import type { SessionSettingsInit } from "../../src/client/calls/sessions.ts";
import { Client } from "../../src/client/client.ts";
import type { Session } from "../../src/protocol/gen/dcnr/v1/session_pb.ts";

export interface TestNetwork {
  readonly directory: string;
  readonly local: LocalNetwork;
  readonly client: Client;
}

export async function withNetwork(pnodes: number, run: (network: TestNetwork) => Promise<void>): Promise<void> {
  const directory = await mkdtemp(join(tmpdir(), "dcnr-test-"));
  const local = await LocalNetwork.start({
    directory,
    listen: "127.0.0.1:0",
    pnodes,
    cpusPerPNode: 1,
    logLevel: "error",
  });
  const client = new Client(local.orchestrator.address, { fetch });
  try {
    await run({ directory, local, client });
  } finally {
    await client.close();
    await local.stop();
    await rm(directory, { recursive: true, force: true });
  }
}

export const quiet = openOutput({ NO_COLOR: "1" }, true);

export async function prepare({ client }: TestNetwork, definition: string, dataset: string): Promise<string> {
  const { id } = await client.networks.create(definition);
  await ensureDataset(client, dataset, { ...quiet, note: () => {}, status: () => {} });
  return id;
}

/** Follows a session to its end; `onStep` may disturb it on the way. */
export async function finish(
  client: Client,
  settings: SessionSettingsInit,
  onStep: (session: Session) => void = () => {},
): Promise<Session> {
  const { id } = await client.sessions.create(settings);
  for await (const { session } of client.sessions.watch(id)) {
    if (!session) continue;
    onStep(session);
    if (session.status === "done" || session.status === "failed") return session;
  }
  return client.sessions.get(id);
}

export interface Ran {
  readonly code: number;
  readonly out: string;
  readonly err: string;
}

/** Runs the program as a user would, from another process. */
export function dcnr(words: readonly string[], environment: NodeJS.ProcessEnv = {}, input = ""): Promise<Ran> {
  return new Promise((resolve) => {
    const env = { ...process.env, NO_COLOR: "1", ...environment };
    const options = { env, maxBuffer: 64 << 20 };
    const child = execFile(process.execPath, ["bin/dcnr.js", ...words], options, (error, out, err) => {
      resolve({ code: typeof error?.code === "number" ? error.code : error ? 1 : 0, out, err });
    });
    child.stdin?.on("error", () => {});
    child.stdin?.end(input);
  });
}
