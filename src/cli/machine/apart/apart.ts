// `dcnr join` as three processes: a gate with the key and the network, started here; the PNode proper, which is this program started anew with
// less (confinement.ts), behind what boundary the system offers (boundary.ts); and before it the one that has the owner's terminal (front-process.ts), which
// this process becomes. Its process id stays, so signals, exit codes and service managers notice nothing. Each ends when another does.

import { spawn } from "node:child_process";
import { randomBytes } from "node:crypto";
import { existsSync, mkdirSync, readdirSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { DcnrError } from "../../../core/errors.ts";
import { moduleBeside } from "../../../core/module-beside.ts";
import type { OptionSpec } from "../../command.ts";
import type { Settings } from "../../flags/settings.ts";
import { findLentGpus } from "../lent-gpus.ts";
import { tryBoundary } from "./boundary.ts";
import {
  type Confined,
  confinedEnvironment,
  confinementFlags,
  filesOfNode,
  filesOfPNode,
  frontFlags,
  gateFlags,
} from "./confinement.ts";
import { type BehindOrder, behindVariable, type GateOrder } from "./gate-order.ts";
import { truePath } from "./hiding.ts";

export interface Standing {
  readonly confined: Confined;
  readonly settings: Settings;
  readonly options: Readonly<Record<string, OptionSpec>>;
  readonly gate: Omit<GateOrder, "path" | "token" | "directory" | "isFolderOurs" | "parent">;
  readonly behind: Pick<BehindOrder, "addresses" | "invite">;
}

/** A key is made, a program loaded; on a machine that is busy. */
const readyMs = 60_000;
/** What the system takes as the path of a socket. */
const pathLengthMax = 100;

/** Starts the gate, and this program anew behind it and the front. Returns where a process cannot become another one: on Windows. */
export async function standApart({ confined, settings, options, gate, behind }: Standing): Promise<BehindOrder> {
  const { directory, gpus } = confined;
  await findLentGpus(directory, gpus);
  mkdirSync(directory, { recursive: true });
  const place = { path: socketIn(directory), token: randomBytes(24).toString("base64url") };
  const isFolderOurs = process.platform !== "win32" && !place.path.startsWith(directory);
  const environment = confinedEnvironment(process.env, directory, settings, options);
  await startGate({ ...place, ...gate, directory, isFolderOurs, parent: process.pid }, environment);
  const [, started = "", ...words] = process.argv;
  const program = truePath(started);
  const key = join(directory, "key.pem");
  const socket = dirname(place.path);
  const kept = [...filesOfPNode(directory), ...filesOfNode(program), { path: socket, isWritable: true }];
  const boundary = tryBoundary({ key: truePath(key), kept }, [directory, program, process.execPath, place.path]);
  const order: BehindOrder = { ...place, ...behind, boundary: boundary.text };
  if (process.execve === undefined || process.platform === "win32") return order;
  const flags = [...confinementFlags(confined), ...socketRights(place.path, directory)];
  const pnode = [...boundary.before, process.execPath, ...process.execArgv, ...flags, program, ...words];
  const front = fileURLToPath(moduleBeside("./front-process.ts", import.meta.url));
  const all = [process.execPath, ...process.execArgv, ...frontFlags, front, ...pnode];
  return process.execve(process.execPath, all, {
    ...withoutCollectorsKeys(environment),
    [behindVariable]: JSON.stringify(order),
  });
}

function startGate(order: GateOrder, environment: NodeJS.ProcessEnv): Promise<void> {
  const program = fileURLToPath(moduleBeside("./gate-process.ts", import.meta.url));
  const flags = [...gateFlags(order.directory), ...socketRights(order.path, order.directory)];
  const child = spawn(process.execPath, [...process.execArgv, ...flags, program], {
    stdio: ["pipe", "pipe", "inherit"],
    env: environment,
  });
  child.stdin?.on("error", () => {});
  child.stdin?.end(JSON.stringify(order));
  return new Promise((resolve, reject) => {
    const late = setTimeout(() => {
      child.kill("SIGKILL");
      const sentence = `the gate of this PNode did not start within ${readyMs / 1000} s`;
      reject(new DcnrError("deadline_exceeded", sentence));
    }, readyMs);
    child.stdout?.once("data", () => {
      clearTimeout(late);
      child.stdout?.destroy();
      child.unref();
      resolve();
    });
    child.once("error", reject);
    child.once("exit", (code) => {
      clearTimeout(late);
      reject(new Error(`the gate of this PNode ended with code ${code} before it was ready`));
    });
  });
}

/** Named by this process, whose number both have; what processes left that are gone is removed. */
function socketIn(directory: string): string {
  if (process.platform === "win32") return `\\\\.\\pipe\\dcnr-gate-${process.pid}-${randomBytes(8).toString("hex")}`;
  const name = `gate-${process.pid}.sock`;
  for (const old of existsSync(directory) ? readdirSync(directory) : []) {
    const pid = Number(/^gate-(\d+)\.sock$/.exec(old)?.[1] ?? Number.NaN);
    if (pid === process.pid || (pid > 0 && !lives(pid))) rmSync(join(directory, old), { force: true });
  }
  const path = join(directory, name);
  if (path.length <= pathLengthMax) return path;
  const folder = join(tmpdir(), `dcnr-${process.pid}-${randomBytes(8).toString("hex")}`);
  mkdirSync(folder, { mode: 0o700 });
  return join(folder, name);
}

/** Where the socket is not in the PNode's own directory. */
function socketRights(path: string, directory: string): string[] {
  if (process.platform === "win32" || path.startsWith(directory)) return [];
  const folder = join(path, "..");
  return [`--allow-fs-read=${folder}`, `--allow-fs-write=${folder}`];
}

function lives(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === "EPERM";
  }
}

/** Traces go by the gate, which alone shows something for them. */
function withoutCollectorsKeys(environment: NodeJS.ProcessEnv): NodeJS.ProcessEnv {
  return Object.fromEntries(Object.entries(environment).filter(([name]) => !/^OTEL_.*HEADERS$/.test(name)));
}
