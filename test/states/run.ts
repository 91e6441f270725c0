// Starts a process that stores or reads a state, and tells what became of it.

import { type ChildProcess, spawn } from "node:child_process";
import { fileURLToPath } from "node:url";
import type { StateJob, StateResult } from "./state-process.ts";

export interface StateRun {
  readonly child: ChildProcess;
  /** Undefined if it was killed. */
  readonly result: Promise<StateResult | undefined>;
}

export function startState(job: StateJob): StateRun {
  const script = fileURLToPath(new URL("./state-process.ts", import.meta.url));
  const child = spawn(process.execPath, [script, JSON.stringify(job)], { stdio: ["ignore", "pipe", "inherit"] });
  let text = "";
  child.stdout?.on("data", (piece: Buffer) => {
    text += piece.toString();
  });
  const result = new Promise<StateResult | undefined>((resolve, reject) => {
    child.once("error", reject);
    child.once("close", (code, signal) => {
      if (signal !== null) resolve(undefined);
      else if (code === 0) resolve(JSON.parse(text) as StateResult);
      else reject(new Error(`the process ended with ${code}`));
    });
  });
  return { child, result };
}
