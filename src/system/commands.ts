// Programs of this machine, run without a shell and with a bound on time and output: what providers of capacity use.

import { spawn } from "node:child_process";
import { DcnrError } from "../core/errors.ts";

export interface Ran {
  readonly code: number;
  readonly out: string;
  readonly err: string;
}

export interface RunOptions {
  readonly input?: string;
  readonly timeoutMs?: number;
}

const timeoutMsUsual = 60_000;
const outputMost = 16 << 20;

/** Fails if there is no such program, or if it takes too long; a code other than 0 is the caller's to judge. */
export function runCommand(program: string, args: readonly string[], options: RunOptions = {}): Promise<Ran> {
  const { input = "", timeoutMs = timeoutMsUsual } = options;
  return new Promise((resolve, reject) => {
    const child = spawn(program, [...args], { stdio: ["pipe", "pipe", "pipe"], windowsHide: true });
    const texts = { out: "", err: "" };
    const end = (error: DcnrError) => {
      clearTimeout(timer);
      child.kill("SIGKILL");
      reject(error);
    };
    const timer = setTimeout(
      () => end(new DcnrError("unavailable", `${program} did not end within ${timeoutMs / 1000} s`)),
      timeoutMs,
    );
    const collect = (name: "out" | "err") => (text: string) => {
      texts[name] += text;
      if (texts[name].length > outputMost) end(new DcnrError("unavailable", `${program} said too much`));
    };
    child.stdout.setEncoding("utf8").on("data", collect("out"));
    child.stderr.setEncoding("utf8").on("data", collect("err"));
    child.once("error", (error: NodeJS.ErrnoException) => {
      const missing = error.code === "ENOENT" || error.code === "EACCES";
      end(
        missing
          ? new DcnrError(
              "failed_precondition",
              `there is no program ${program} on the orchestrator's machine: install it, or add it to PATH`,
            )
          : new DcnrError("unavailable", `${program} cannot be started: ${error.message}`),
      );
    });
    child.once("exit", (code) => {
      clearTimeout(timer);
      // What it has written is read first; whoever it left behind may hold the pipe open for ever.
      setImmediate(() => resolve({ code: code ?? 1, ...texts }));
    });
    child.stdin.on("error", () => {});
    child.stdin.end(input);
  });
}
