// What a command is: its words, its flags, and what it does. Parsing is Node's own parseArgs; this file
// adds the errors that say what to do, and settings from environment and file behind the flags.

import { parseArgs } from "node:util";
import { fail } from "../core/errors.ts";
import { listed } from "../network/settings/setting-fields.ts";
import { didYouMean } from "../network/suggest.ts";
import type { Settings } from "./flags/settings.ts";
import type { Output } from "./shown/output.ts";

export interface OptionSpec {
  readonly type: "string" | "number" | "boolean";
  readonly summary: string;
  /** Shown in help: "ADDRESS", "N". */
  readonly value?: string;
  readonly default?: string | number | boolean;
  /** Of numbers: bounds, and whether parts of one make sense. */
  readonly least?: number;
  readonly most?: number;
  readonly fraction?: boolean;
  /** Of texts: the only ones that make sense. */
  readonly choices?: readonly string[];
  readonly short?: string;
  readonly many?: boolean;
}

export interface PositionalSpec {
  readonly name: string;
  readonly optional?: boolean;
  readonly many?: boolean;
}

export interface Command {
  readonly summary: string;
  readonly details?: string;
  readonly positionals?: readonly PositionalSpec[];
  readonly options?: Readonly<Record<string, OptionSpec>>;
  readonly examples: readonly string[];
  run(context: CommandContext): Promise<number | undefined>;
}

/** A command by its words, loaded when it is used. */
export interface CommandEntry {
  readonly words: string;
  /** Other words that people try for the same thing. */
  readonly also?: readonly string[];
  readonly summary: string;
  readonly group: "Run" | "Define" | "Train" | "Use" | "Look" | "Operate" | "More";
  readonly load: () => Promise<{ readonly command: Command }>;
}

/** The commands that help shows under one heading. */
export function inGroup(
  group: CommandEntry["group"],
  entries: readonly Omit<CommandEntry, "group">[],
): readonly CommandEntry[] {
  return entries.map((entry) => ({ ...entry, group }));
}

export interface CommandContext {
  /** All commands there are, for those that speak of them. */
  readonly commands: readonly CommandEntry[];
  readonly arguments: readonly string[];
  readonly flags: Flags;
  readonly out: Output;
  readonly settings: Settings;
  /** Aborts on Ctrl-C and SIGTERM. */
  readonly signal: AbortSignal;
}

export class Flags {
  readonly #values: Record<string, unknown>;

  constructor(values: Record<string, unknown>) {
    this.#values = values;
  }

  /** Whether the user gave it, on the command line, in the environment or in the file. */
  has(name: string): boolean {
    return this.#values[name] !== undefined;
  }

  text(name: string): string {
    const value = this.#values[name];
    return typeof value === "string" ? value : fail("invalid_argument", `--${name} is needed: see --help`);
  }

  optionalText(name: string): string | undefined {
    return this.#values[name] as string | undefined;
  }

  texts(name: string): string[] {
    return (this.#values[name] as string[] | undefined) ?? [];
  }

  number(name: string): number {
    const value = this.#values[name];
    return typeof value === "number" ? value : fail("invalid_argument", `--${name} is needed: see --help`);
  }

  optionalNumber(name: string): number | undefined {
    return this.#values[name] as number | undefined;
  }

  is(name: string): boolean {
    return this.#values[name] === true;
  }
}

export const commonOptions: Readonly<Record<string, OptionSpec>> = {
  json: { type: "boolean", summary: "print data as JSON, one document" },
  help: { type: "boolean", short: "h", summary: "show this help" },
  "no-color": { type: "boolean", summary: "never use colours" },
};

export function parseCommandLine(
  words: readonly string[],
  command: Command,
  title: string,
  settings: Settings,
): { arguments: string[]; flags: Flags } {
  const options = { ...commonOptions, ...command.options };
  const { values, positionals } = parseWords(words, options, title);
  for (const [name, spec] of Object.entries(options)) {
    const given = values[name] ?? settings.fallback(name) ?? spec.default;
    values[name] = given === undefined ? undefined : convert(name, given, spec);
  }
  if (values["help"] !== true) checkPositionals(positionals, command.positionals ?? [], title);
  return { arguments: positionals, flags: new Flags(values) };
}

function parseWords(words: readonly string[], options: Readonly<Record<string, OptionSpec>>, title: string) {
  const { values, positionals, tokens } = parseArgs({
    args: [...words],
    options: Object.fromEntries(
      Object.entries(options).map(([name, spec]) => [
        name,
        {
          type: spec.type === "boolean" ? ("boolean" as const) : ("string" as const),
          ...(spec.short ? { short: spec.short } : {}),
          ...(spec.many ? { multiple: true } : {}),
        },
      ]),
    ),
    allowPositionals: true,
    strict: false,
    tokens: true,
  });
  for (const token of tokens) {
    if (token.kind !== "option") continue;
    const spec = options[token.name];
    if (!spec) {
      const known = Object.keys(options).map((name) => `--${name}`);
      fail(
        "invalid_argument",
        `${title} has no flag ${token.rawName}${didYouMean(token.rawName, known) || `: see ${title} --help`}`,
      );
    }
    if (spec.type !== "boolean" && token.value === undefined)
      fail("invalid_argument", `${token.rawName} needs a value: ${token.rawName} ${spec.value ?? "VALUE"}`);
    if (spec.type === "boolean" && token.value !== undefined)
      fail("invalid_argument", `${token.rawName} takes no value`);
  }
  return { values: values as Record<string, unknown>, positionals };
}

/** Most numbers travel as 32 bits; what they mean is far below that. */
const wireMost = 0xffff_ffff;

function convert(name: string, given: unknown, spec: OptionSpec): unknown {
  if (spec.many) return Array.isArray(given) ? given : [String(given)];
  if (spec.type === "boolean") return given === true || given === "true" || given === "1";
  if (spec.type === "string") {
    if (spec.choices && !spec.choices.includes(String(given)))
      fail("invalid_argument", `--${name} takes ${listed(spec.choices)}, not "${String(given)}"`);
    return String(given);
  }
  const value = Number(given);
  const { least = 0, most = wireMost, fraction = false } = spec;
  const fits = given !== "" && value >= least && value <= most && (fraction || Number.isInteger(value));
  if (!fits) fail("invalid_argument", `--${name} takes ${numberForm(spec)}, not "${String(given)}"`);
  return value;
}

function numberForm({ least = 0, most, fraction = false }: OptionSpec): string {
  const kind = fraction ? "a number" : "a whole number";
  if (most !== undefined) return `${kind} from ${least} to ${most}`;
  return `${kind} of ${least} or more`;
}

function checkPositionals(given: readonly string[], specs: readonly PositionalSpec[], title: string): void {
  const needed = specs.filter((spec) => !spec.optional);
  const missing = needed[given.length];
  if (missing) fail("invalid_argument", `${title} needs ${missing.name}: see ${title} --help`);
  const open = specs.some((spec) => spec.many);
  if (!open && given.length > specs.length)
    fail("invalid_argument", `${title} does not know what to do with "${given[specs.length]}": see ${title} --help`);
}
