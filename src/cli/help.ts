// Help texts, made from what the commands say of themselves.

import { type Command, type CommandEntry, commonOptions, type OptionSpec } from "./command.ts";
import { commands } from "./commands.ts";
import type { Output } from "./shown/output.ts";

export function showOverview(out: Output): void {
  out.line("dcnr: train and serve one model on machines that may vanish at any moment");
  out.line();
  out.line("Usage: dcnr COMMAND [flags]     dcnr COMMAND --help");
  for (const group of new Set(commands.map((entry) => entry.group))) {
    out.line();
    out.line(out.tone("bold", group));
    for (const entry of commands.filter((candidate) => candidate.group === group)) showEntry(out, entry);
  }
  out.line();
  out.line(
    "First steps: `npm start` for the story in some two minutes, or `dcnr up` and, in another terminal, `dcnr status`.",
  );
}

export function showGroup(out: Output, noun: string): boolean {
  const entries = commands.filter((entry) => entry.words.startsWith(`${noun} `));
  if (entries.length === 0) return false;
  out.line(`Usage: dcnr ${noun} COMMAND [flags]`);
  out.line();
  for (const entry of entries) showEntry(out, entry);
  return true;
}

const wordsWidth = Math.max(...commands.map((entry) => entry.words.length));

function showEntry(out: Output, entry: CommandEntry): void {
  out.line(`  ${entry.words.padEnd(wordsWidth)} ${entry.summary}`);
}

export function showCommand(out: Output, entry: CommandEntry, command: Command): void {
  const positionals = (command.positionals ?? []).map(({ name, optional, many }) => {
    const word = many ? `${name} ...` : name;
    return optional ? ` [${word}]` : ` ${word}`;
  });
  out.line(`${command.summary}`);
  out.line();
  out.line(`Usage: dcnr ${entry.words}${positionals.join("")} [flags]`);
  if (command.details) {
    out.line();
    out.line(command.details);
  }
  out.line();
  out.line(out.tone("bold", "Flags"));
  for (const [name, spec] of Object.entries({ ...command.options, ...commonOptions })) out.line(flagLine(name, spec));
  out.line();
  out.line(out.tone("bold", "Examples"));
  for (const example of command.examples) out.line(`  ${example}`);
}

function flagLine(name: string, spec: OptionSpec): string {
  const flag = `--${name}${spec.type === "boolean" ? "" : ` ${spec.value ?? (spec.type === "number" ? "N" : "TEXT")}`}`;
  const shown = spec.default === undefined || spec.default === false ? "" : ` (default ${spec.default})`;
  return `  ${flag.padEnd(26)} ${spec.summary}${shown}`;
}
