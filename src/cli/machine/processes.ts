// Child processes of `dcnr up` and `dcnr demo`: each tells when it is ready, and none outlives its parent.

import { spawn } from "node:child_process";
import { availableParallelism, loadavg } from "node:os";
import { DcnrError, type ErrorCode } from "../../core/errors.ts";
import type { KeyId } from "../../core/ids.ts";
import { packagePath } from "./software.ts";

/** What a child tells its parent once it works. */
export interface Ready {
  readonly kind: "ready";
  readonly address: string;
  readonly id: string;
  /** Of an orchestrator: its network's. */
  readonly key?: KeyId;
}

export interface Child {
  readonly name: string;
  readonly pid: number;
  readonly address: string;
  readonly id: string;
  readonly key: KeyId | undefined;
  readonly ended: Promise<number | null>;
  kill(signal: NodeJS.Signals): void;
}

/** Compiling and measuring take a while; more than this, of a machine that has time for it, means that it hangs. */
const startTimeoutMs = 120_000;
const tickMs = 1_000;

/** What a child is given of this process. */
export interface Given {
  readonly environment: NodeJS.ProcessEnv;
  /** Node's own. */
  readonly flags: readonly string[];
}

/** `more` is added to the environment. */
export function startChild(
  name: string,
  args: readonly string[],
  more: NodeJS.ProcessEnv = {},
  { environment, flags }: Given = { environment: process.env, flags: [] },
): Promise<Child> {
  const child = spawn(process.execPath, [...flags, packagePath("bin/dcnr.js"), ...args], {
    stdio: ["ignore", "ignore", "pipe", "ipc"],
    env: { ...environment, ...more },
  });
  const lastWords: string[] = [];
  child.stderr?.setEncoding("utf8").on("data", (text: string) => {
    lastWords.push(text);
    if (lastWords.length > 20) lastWords.shift();
    if (process.env["DCNR_DEBUG"]) process.stderr.write(text);
  });
  const ended = new Promise<number | null>((resolve) => child.once("exit", (code) => resolve(code)));
  return new Promise((resolve, reject) => {
    const begun = performance.now();
    let grantedMs = 0;
    const timer = setInterval(() => {
      grantedMs += grantedOf(tickMs, loadavg()[0] ?? 0, availableParallelism());
      if (grantedMs < startTimeoutMs) return;
      clearInterval(timer);
      child.kill("SIGKILL");
      const seconds = Math.round((performance.now() - begun) / 1000);
      reject(new DcnrError("deadline_exceeded", `${name} did not start within ${seconds} s`));
    }, tickMs);
    child.once("message", (message) => {
      clearInterval(timer);
      const { address, id, key } = message as Ready;
      resolve({ name, pid: child.pid ?? 0, address, id, key, ended, kill: (signal) => void child.kill(signal) });
    });
    child.once("error", (error) => reject(new DcnrError("internal", `cannot start ${name}: ${error.message}`)));
    void ended.then((code) => {
      clearInterval(timer);
      reject(new DcnrError(codeOf(code), lastSentence(lastWords) ?? `${name} ${endOf(code)} before it was ready`));
    });
  });
}

/** What a process gets of some time where others want the processor too: a busy machine is no machine that hangs. */
export function grantedOf(ms: number, load: number, cores: number): number {
  return ms / Math.max(1, load / cores);
}

/** So that a command that failed by its child ends with the same exit code. */
function codeOf(exit: number | null): ErrorCode {
  if (exit === 2) return "invalid_argument";
  if (exit === 3) return "not_found";
  return exit === 4 ? "unavailable" : "internal";
}

/** How a child ended, in words. */
export function endOf(exit: number | null): string {
  return exit === null ? "was killed" : `ended with code ${exit}`;
}

function lastSentence(lines: readonly string[]): string | undefined {
  const text = lines.join("").trimEnd().split("\n").at(-1);
  return text?.startsWith("dcnr: ") ? text.slice(6) : undefined;
}

/** Ends a child politely; one that does not listen is killed. */
export async function stopChild(child: Child, patienceMs = 10_000): Promise<void> {
  child.kill("SIGTERM");
  const timer = setTimeout(() => child.kill("SIGKILL"), patienceMs);
  await child.ended;
  clearTimeout(timer);
}

/** In a child: tells the parent, and ends with it. Without a parent it does nothing. */
export function tellParent(ready: Omit<Ready, "kind">, onParentGone: () => void): void {
  if (!process.send) return;
  process.on("disconnect", onParentGone);
  process.send({ kind: "ready", ...ready } satisfies Ready);
}

export function untilAborted(signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    if (signal.aborted) resolve();
    else signal.addEventListener("abort", () => resolve(), { once: true });
  });
}
