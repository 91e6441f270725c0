// The program that stands between a PNode's process and the terminal of its owner: what the owner has started becomes this. The PNode, whose command its arguments
// are, runs in a session of its own at the other end of pipes, so whoever takes it over has no terminal by which to type into the owner's shell or to read along.
// Text passes (terminal-text.ts), keys pass while they are wanted, signals and the exit code are as if both were one process, and neither outlives the other.

import { spawn } from "node:child_process";
import { once } from "node:events";
import { constants } from "node:os";
import type { Duplex, Readable, Writable } from "node:stream";
import { pipeline } from "node:stream/promises";
import type { WriteStream } from "node:tty";
import { messageOf } from "../../../core/errors.ts";
import { terminalText } from "../../shown/terminal-text.ts";
import { keysWanted, type TerminalFacts, terminalVariable } from "./far-terminal.ts";

const { stdin, stdout, stderr } = process;
const [program = "", ...words] = process.argv.slice(2);

function facts(): TerminalFacts {
  const size = ({ columns, rows }: WriteStream) => ({ columns, rows });
  return {
    input: stdin.isTTY === true,
    ...(stdout.isTTY && { output: size(stdout) }),
    ...(stderr.isTTY && { errors: size(stderr) }),
  };
}

const child = spawn(program, words, {
  stdio: ["pipe", "pipe", "pipe", "pipe"],
  env: { ...process.env, [terminalVariable]: JSON.stringify(facts()) },
  // In a session of its own.
  detached: true,
});
child.once("error", (error) => {
  stderr.write(`dcnr: the PNode's process does not start: ${messageOf(error)}\n`);
  process.exit(1);
});
const [keys, out, errors, wire] = child.stdio as unknown as readonly [Writable, Readable, Readable, Duplex];
for (const stream of [keys, wire]) stream.on("error", () => stream.destroy());
// What becomes of a terminal that is gone is decided where text is shown.
for (const stream of [stdin, stdout, stderr]) stream.on("error", () => {});

let areWanted = false;
wire.on("data", (wishes: Uint8Array) => {
  const before = areWanted;
  areWanted = stdin.isTTY === true && wishes.at(-1) === keysWanted;
  if (areWanted === before) return;
  stdin.setRawMode(areWanted);
  if (areWanted) stdin.pipe(keys, { end: false });
  else stdin.unpipe(keys).pause();
});
for (const stream of [stdout, stderr])
  stream.on("resize", () => void (wire.writable && wire.write(`${JSON.stringify(facts())}\n`)));

for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"] as const) process.on(signal, () => void child.kill(signal));
// Ctrl-Z stops both, which a session of its own would not be told.
process.on("SIGTSTP", () => {
  child.kill("SIGSTOP");
  process.kill(process.pid, "SIGSTOP");
});
process.on("SIGCONT", () => void child.kill("SIGCONT"));

/** Where nobody reads any more the PNode leaves, which would not notice before its next words. */
const show = (from: Readable, to: Writable) =>
  pipeline(from, terminalText(), to, { end: false }).catch(() => child.kill("SIGTERM"));
const shown = Promise.all([show(out, stdout), show(errors, stderr)]);
const [code, signal] = (await once(child, "exit")) as [number | null, NodeJS.Signals | null];
await shown;
for (const stream of [stdout, stderr]) await new Promise<void>((resolve) => stream.write("", () => resolve()));
if (areWanted) stdin.setRawMode(false);
if (signal !== null) {
  process.removeAllListeners(signal);
  process.kill(process.pid, signal);
  // Process 1 of a container is not ended by its own signals.
  process.exit(128 + constants.signals[signal]);
}
process.exit(code);
