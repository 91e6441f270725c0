// The `dcnr` program: finds the command, gives it flags, output and a signal, and turns what goes wrong
// into one sentence and an exit code that scripts can trust.

import { join } from "node:path";
import { AssertionError } from "../core/assert.ts";
import { DcnrError, type ErrorCode, messageOf } from "../core/errors.ts";
import { setAdditionsFolder } from "../core/optional.ts";
import { asCalled, callName } from "./call-name.ts";
import { parseCommandLine } from "./command.ts";
import { commands, findCommand } from "./commands.ts";
import { openSettings } from "./flags/settings.ts";
import { showCommand, showGroup, showOverview } from "./help.ts";
import { adoptTerminal } from "./machine/apart/far-terminal.ts";
import { dataFolder } from "./machine/directories.ts";
import { openOutput } from "./shown/output.ts";
import { unknownCommand } from "./unknown-command.ts";

adoptTerminal(process.env);
/** As its user has it: what is set below for threads and children is no setting of theirs. */
const environment = { ...process.env };
// Must be set before any worker loads the runtime, which otherwise calls home.
process.env["ORT_DISABLE_TELEMETRY"] = "1";
setAdditionsFolder(join(dataFolder(process.env), "additions"));

/** 1: it failed; 2: the command line is wrong; 3: something that was named does not exist; 4: cannot be reached. */
const exitCodes: Partial<Record<ErrorCode, number>> = {
  invalid_argument: 2,
  not_found: 3,
  unavailable: 4,
  cancelled: 130,
};

async function main(words: string[]): Promise<number> {
  const out = openOutput(process.env, words.includes("--no-color"));
  const first = words[0];
  if (first === undefined || first === "--help" || first === "-h" || (first === "help" && words.length === 1)) {
    showOverview(out);
    return 0;
  }
  if (first === "help") return main([...words.slice(1), "--help"]);
  if (first === "--version") words = ["version", ...words.slice(1)];
  const found = findCommand(words);
  if (!found) {
    const given = words.filter((word) => !word.startsWith("-"));
    if (given.length === 1 && showGroup(out, given[0] as string)) return 0;
    out.note(`dcnr: ${unknownCommand(given, commands)}`);
    return 2;
  }
  const { command } = await found.entry.load();
  const settings = await openSettings(environment);
  const parsed = parseCommandLine(found.rest, command, `dcnr ${found.entry.words}`, settings);
  if (parsed.flags.is("help")) {
    showCommand(out, found.entry, command);
    return 0;
  }
  return (await command.run({ ...parsed, commands, out, settings, signal: untilInterrupted() })) ?? 0;
}

/**
 * The first Ctrl-C or SIGTERM asks the command to end cleanly. A second Ctrl-C ends the process at once; a second SIGTERM
 * does not: it comes from service managers and parents that repeat themselves, while work is still being handed over.
 */
function untilInterrupted(): AbortSignal {
  const controller = new AbortController();
  process.on("SIGINT", () => {
    if (controller.signal.aborted) process.exit(130);
    controller.abort();
  });
  process.on("SIGTERM", () => controller.abort());
  return controller.signal;
}

function report(error: unknown): number {
  if (error instanceof DcnrError) {
    process.stderr.write(`dcnr: ${asCalled(error.message, callName(process.env))}\n`);
    return exitCodes[error.code] ?? 1;
  }
  if (error instanceof AssertionError) process.stderr.write(`dcnr: a bug, please report it: ${error.stack}\n`);
  else if (process.env["DCNR_DEBUG"]) process.stderr.write(`dcnr: ${(error as Error).stack}\n`);
  else process.stderr.write(`dcnr: ${messageOf(error)} (set DCNR_DEBUG=1 for details)\n`);
  return 1;
}

for (const stream of [process.stdout, process.stderr])
  stream.on("error", (error: NodeJS.ErrnoException) => {
    // `dcnr events | head` closes the pipe: that is not a failure.
    if (error.code === "EPIPE") process.exit(0);
  });
process.exitCode = await main(process.argv.slice(2)).catch(report);
// A slow reader of a pipe must get everything: leaving now would cut off what it has not taken yet.
for (const stream of [process.stdout, process.stderr])
  await new Promise<void>((resolve) => stream.write("", () => resolve()));
// Everything that was opened is closed by its command; what a library keeps alive must not hold the shell.
process.exit();
