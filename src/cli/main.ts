// The `dcnr` program: finds the command, gives it flags, output and a signal, and turns what goes wrong
// into one sentence and an exit code that scripts can trust.

import { join } from "node:path";
import { AssertionError } from "../core/assert.ts";
import { DcnrError, type ErrorCode, messageOf } from "../core/errors.ts";
import { setAdditionsFolder } from "../core/optional.ts";
import { didYouMean } from "../network/suggest.ts";
import { parseCommandLine } from "./command.ts";
import { commands, findCommand } from "./commands.ts";
import { openSettings } from "./flags/settings.ts";
import { showCommand, showGroup, showOverview } from "./help.ts";
import { dataFolder } from "./machine/directories.ts";
import { type Output, openOutput } from "./shown/output.ts";

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
  if (!found) return unknownCommand(out, words);
  const { command } = await found.entry.load();
  const settings = await openSettings(process.env);
  const parsed = parseCommandLine(found.rest, command, `dcnr ${found.entry.words}`, settings);
  if (parsed.flags.is("help")) {
    showCommand(out, found.entry, command);
    return 0;
  }
  return (await command.run({ ...parsed, commands, out, settings, signal: untilInterrupted() })) ?? 0;
}

/** The words of a group alone show its commands; anything else gets the nearest command, and exit code 2. */
function unknownCommand(out: Output, words: readonly string[]): number {
  const given = words.filter((word) => !word.startsWith("-"));
  const [noun = "", verb] = given;
  if (verb === undefined && showGroup(out, noun)) return 0;
  const inGroup = commands.filter((entry) => entry.words.startsWith(`${noun} `)).map((entry) => entry.words);
  const typed = given.slice(0, 2).join(" ");
  const known = ["help", ...commands.map((entry) => entry.words)];
  const groups = commands.map((entry) => entry.words.split(" ")[0] as string);
  if (inGroup.length > 0) {
    const verbs = inGroup.map((known) => known.slice(noun.length + 1));
    out.note(
      `dcnr: there is no command "${typed}"${didYouMean(typed, inGroup) || `: ${noun} has ${verbs.join(", ")}`}`,
    );
    return 2;
  }
  const nearest = didYouMean(typed, known) || didYouMean(noun, [...known, ...groups]) || ".";
  out.note(`dcnr: there is no command "${typed}"${nearest} See dcnr --help`);
  return 2;
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
