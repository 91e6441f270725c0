// Walks documents as their readers would: a network of its own, commands one after the other, what they are told to remember.

import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { join } from "node:path";

export const root = join(import.meta.dirname, "../..");
/** A command of the tutorial that takes longer hangs. */
const commandTimeoutMs = 300_000;

interface Ran {
  readonly code: number | null;
  readonly output: string;
}

function start(
  command: string,
  environment: NodeJS.ProcessEnv,
  folder = root,
): { child: ChildProcess; output: () => string } {
  // `exec`: the program gets our signals, not the shell.
  const text = `exec ${command.replace(/^(npx )?dcnr/, `${process.execPath} ${join(root, "bin/dcnr.js")}`)}`;
  const child = spawn("/bin/sh", ["-c", text], { cwd: folder, env: environment, stdio: ["ignore", "pipe", "pipe"] });
  let output = "";
  for (const stream of [child.stdout, child.stderr])
    stream.setEncoding("utf8").on("data", (piece: string) => {
      output += piece;
    });
  return { child, output: () => output };
}

export async function run(command: string, environment: NodeJS.ProcessEnv, folder = root): Promise<Ran> {
  const { child, output } = start(command, environment, folder);
  const timer = setTimeout(() => child.kill("SIGKILL"), commandTimeoutMs);
  const [code] = (await once(child, "close")) as [number | null];
  clearTimeout(timer);
  return { code, output: output() };
}

/** `dcnr up` with its own directory and a free port; the address and process ids it printed. */
export async function bringUp(command: string, directory: string) {
  const environment: NodeJS.ProcessEnv = { ...process.env, XDG_DATA_HOME: directory, NO_COLOR: "1" };
  const { child, output } = start(command, { ...environment, DCNR_LISTEN: "127.0.0.1:0" });
  const ended = once(child, "exit");
  await new Promise<void>((resolve, reject) => {
    child.stdout?.on("data", () => output().includes("Ctrl-C ends it") && resolve());
    void ended.then(() => reject(new Error(`${command} ended: ${output()}`)));
  });
  const address = /http:\/\/(\S+)/.exec(output())?.[1] ?? "";
  const pids = [...output().matchAll(/PNode\s+(\w+)\s+\(pid (\d+)\)/g)].map(([, name = "", pid = ""]) => ({
    name,
    pid,
  }));
  const stop = async () => {
    child.kill("SIGTERM");
    await ended;
  };
  return { address, pids, environment: { ...environment, DCNR_ORCHESTRATOR: address }, stop };
}
