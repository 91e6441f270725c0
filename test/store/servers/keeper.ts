// Keeps one server process for a test: ends it when the test process ends, however that happens, since its own
// standard input closes then. It can also lead connections from a socket file to a port of its own network namespace.

import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { connect, createServer, type Server } from "node:net";

export interface Kept {
  readonly command: string;
  readonly args: readonly string[];
  readonly signal: NodeJS.Signals;
  /** Whom the server runs as, where the test is root and the server refuses to be. */
  readonly user?: number;
  readonly bridge?: { readonly socketPath: string; readonly port: number };
}

export interface Keeper {
  /** Everything the server has said so far, for error messages. */
  said(): string;
  readonly ended: Promise<unknown>;
  stop(): Promise<void>;
}

/** `inside` is a command line to run the keeper under, such as `unshare`. */
export function keep(kept: Kept, inside: readonly string[] = []): Keeper {
  const [command, ...args] = [...inside, process.execPath, import.meta.filename, JSON.stringify(kept)];
  const keeper = spawn(command!, args, { stdio: ["pipe", "pipe", "pipe"] });
  let said = "";
  for (const stream of [keeper.stdout, keeper.stderr])
    stream.on("data", (text) => (said = (said + text).slice(-10_000)));
  const ended = once(keeper, "close");
  return {
    said: () => said,
    ended,
    async stop() {
      keeper.stdin.end();
      await ended;
    },
  };
}

/** Waits for a server to take connections; a server that ended instead is an error with what it said. */
export async function untilListening(keeper: Keeper, connectTo: { port: number } | { path: string }): Promise<void> {
  let ended = false;
  void keeper.ended.then(() => (ended = true));
  while (!(await accepts(connectTo))) {
    if (ended) throw new Error(`the server ended:\n${keeper.said()}`);
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
}

function accepts(connectTo: { port: number } | { path: string }): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect("port" in connectTo ? { host: "127.0.0.1", ...connectTo } : connectTo);
    socket.on("connect", () => {
      socket.destroy();
      resolve(true);
    });
    socket.on("error", () => resolve(false));
  });
}

/** Leads every connection to `from` on to `to`, until closed. */
export async function forward(
  from: { port: number } | { path: string },
  to: { port: number } | { path: string },
): Promise<Server> {
  const server = createServer((incoming) => {
    const outgoing = connect("port" in to ? { host: "127.0.0.1", ...to } : to);
    incoming.pipe(outgoing).pipe(incoming);
    incoming.on("error", () => outgoing.destroy());
    outgoing.on("error", () => incoming.destroy());
  });
  server.listen("port" in from ? { host: "127.0.0.1", ...from } : from);
  await once(server, "listening");
  return server;
}

export async function freePort(): Promise<number> {
  const server = createServer().listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = server.address() as { port: number };
  server.close();
  await once(server, "close");
  return port;
}

async function main({ command, args, user, signal, bridge }: Kept): Promise<void> {
  const identity = user === undefined ? {} : { uid: user, gid: user };
  const server: ChildProcess = spawn(command, args, { stdio: ["ignore", "inherit", "inherit"], ...identity });
  process.stdin.resume().on("end", () => server.kill(signal));
  process.on("SIGTERM", () => server.kill(signal));
  process.on("SIGINT", () => server.kill(signal));
  server.on("close", (code) => process.exit(code ?? 0));
  server.on("error", (error) => {
    console.error(error.message);
    process.exit(1);
  });
  if (bridge === undefined) return;
  while (!(await accepts({ port: bridge.port }))) await new Promise((resolve) => setTimeout(resolve, 50));
  await forward({ path: bridge.socketPath }, { port: bridge.port });
}

if (import.meta.main) await main(JSON.parse(process.argv[2]!) as Kept);
