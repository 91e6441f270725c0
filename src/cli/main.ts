// The `dcnr` program: finds the command, gives it flags, output and a signal, and turns what goes wrong
// into one sentence and an exit code that scripts can trust.

import { join } from "node:path";
import { AssertionError } from "../core/assert.ts";
import { DcnrError, type ErrorCode, messageOf } from "../core/errors.ts";
import { setAdditionsFolder } from "../core/optional.ts";
import { didYouMean } from "../network/suggest.ts";
import { parseCommandLine } from "./command.ts";
import { commands, findCommand } from "./commands.ts";
import { dataFolder } from "./directories.ts";
import { showCommand, showGroup, showOverview } from "./help.ts";
import { openOutput } from "./output.ts";
import { openSettings } from "./settings.ts";

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
  if (first === undefined || first === "--help" || first === "-h" || first === "help") {
    showOverview(out);
    return 0;
  }
  if (first === "--version") words = ["version", ...words.slice(1)];
  const found = findCommand(words);
  if (!found) {
    if (showGroup(out, first)) return words.length === 1 || words.includes("--help") ? 0 : 2;
    const known = commands.map((entry) => entry.words);
    out.note(
      `dcnr: there is no command "${words.slice(0, 2).join(" ")}"${didYouMean(words.slice(0, 2).join(" "), known) || didYouMean(first, known)} See dcnr --help`,
    );
    return 2;
  }
  const { command } = await found.entry.load();
  const settings = await openSettings(process.env);
  const parsed = parseCommandLine(found.rest, command, `dcnr ${found.entry.words}`, settings);
  if (parsed.flags.is("help")) {
    showCommand(out, found.entry, command);
    return 0;
  }
  return (await command.run({ ...parsed, commands, out, settings, signal: untilInterrupted() })) ?? 0;
}

/** The first Ctrl-C or SIGTERM asks the command to end cleanly; a second one ends the process. */
function untilInterrupted(): AbortSignal {
  const controller = new AbortController();
  for (const name of ["SIGINT", "SIGTERM"] as const) {
    process.on(name, () => {
      if (controller.signal.aborted) process.exit(130);
      controller.abort();
    });
  }
  return controller.signal;
}

function report(error: unknown): number {
  if (error instanceof DcnrError) {
    process.stderr.write(`dcnr: ${error.message}\n`);
    return exitCodes[error.code] ?? 1;
  }
  if (error instanceof AssertionError) process.stderr.write(`dcnr: a bug, please report it: ${error.stack}\n`);
  else if (process.env["DCNR_DEBUG"]) process.stderr.write(`dcnr: ${(error as Error).stack}\n`);
  else process.stderr.write(`dcnr: ${messageOf(error)} (set DCNR_DEBUG=1 for details)\n`);
  return 1;
}

process.stdout.on("error", (error: NodeJS.ErrnoException) => {
  // `dcnr events | head` closes the pipe: that is not a failure.
  if (error.code === "EPIPE") process.exit(0);
});
process.exitCode = await main(process.argv.slice(2)).catch(report);
// A slow reader of a pipe must get everything: leaving now would cut off what it has not taken yet.
for (const stream of [process.stdout, process.stderr])
  await new Promise<void>((resolve) => stream.write("", () => resolve()));
// Everything that was opened is closed by its command; what a library keeps alive must not hold the shell.
process.exit();
