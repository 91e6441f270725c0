// `npm run reference`: writes docs/reference from what the program itself says: the proto files, the node catalogue,
// the commands. A test compares, so that it cannot fall behind.

import { mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { type Command, commonOptions, type OptionSpec } from "../src/cli/command.ts";
import { commands } from "../src/cli/commands.ts";
import { renderReference } from "../src/network/reference.ts";

const root = join(import.meta.dirname, "..");
const protoFolder = join(root, "proto", "dcnr", "v1");

export async function referencePages(): Promise<Map<string, string>> {
  return new Map([
    ["docs/reference/nodes.md", renderReference()],
    ["docs/reference/api.md", apiPage()],
    ["docs/reference/cli.md", await commandsPage()],
  ]);
}

// The command line

async function commandsPage(): Promise<string> {
  const lines = ["# Commands", "", "Written by `scripts/reference.ts` from the commands themselves."];
  lines.push(
    "",
    "Exit codes: 0 it worked; 1 it failed; 2 the command line is wrong; 3 something that was named does not exist;",
    "4 the orchestrator cannot be reached; 130 ended by Ctrl-C. Every flag can also be set as `DCNR_FLAG_NAME` in the",
    "environment or as `flag-name: value` in the file that `dcnr config` names.",
    "",
    "## Flags of every command",
    "",
    ...flagTable(commonOptions),
  );
  for (const entry of commands) {
    const { command } = await entry.load();
    lines.push("", `## dcnr ${entry.words}`, "", command.summary);
    if (command.details) lines.push("", command.details);
    lines.push("", "```", `dcnr ${entry.words}${positionals(command)} [flags]`, "```");
    if (Object.keys(command.options ?? {}).length > 0) lines.push("", ...flagTable(command.options ?? {}));
    lines.push("", "```", ...command.examples, "```");
  }
  return `${lines.join("\n")}\n`;
}

function positionals(command: Command): string {
  const shown = (command.positionals ?? []).map(({ name, optional, many }) => {
    const word = many ? `${name} ...` : name;
    return optional ? ` [${word}]` : ` ${word}`;
  });
  return shown.join("");
}

function flagTable(options: Readonly<Record<string, OptionSpec>>): string[] {
  const rows = Object.entries(options).map(([name, spec]) => {
    const value = spec.type === "boolean" ? "" : ` ${spec.value ?? (spec.type === "number" ? "N" : "TEXT")}`;
    const standard = spec.default === undefined || spec.default === false ? "" : `\`${spec.default}\``;
    return `| \`--${name}${value}\` | ${cell(spec.summary)} | ${standard} |`;
  });
  return ["| flag | what | default |", "|---|---|---|", ...rows];
}

function cell(text: string): string {
  return text.replaceAll("|", "\\|");
}

// The API

function apiPage(): string {
  const lines = [
    "# API",
    "",
    "Written by `scripts/reference.ts` from `proto/dcnr/v1`. One port speaks gRPC, gRPC-Web and Connect: with curl,",
    "",
    "```",
    "curl -H 'content-type: application/json' -d '{}' http://127.0.0.1:7700/dcnr.v1.FleetService/GetStatus",
    "```",
    "",
    "Beside it, on the same port: `/v1/chat/completions`, `/v1/completions` and `/v1/models` (as OpenAI clients expect",
    "them), `/metrics`, `/healthz`, `/readyz`, the dashboard, and gRPC's own health service. `PNodeService`,",
    "`ExchangeService` and `ServingService` are between machines; a program that uses DCNR never calls them.",
  ];
  for (const file of readdirSync(protoFolder).sort()) lines.push(...protoSection(file));
  return `${lines.join("\n")}\n`;
}

function protoSection(file: string): string[] {
  const text = readFileSync(join(protoFolder, file), "utf8");
  const lines: string[] = ["", `## ${file}`];
  for (const { comment, kind, name, body } of declarations(text)) {
    lines.push("", `### ${kind} ${name}`, "");
    if (comment) lines.push(comment, "");
    lines.push("```proto", ...body, "```");
  }
  return lines;
}

interface Declaration {
  readonly kind: string;
  readonly name: string;
  readonly comment: string;
  readonly body: readonly string[];
}

/** Top-level services, messages and enums; our style puts their closing brace at the start of a line. */
function declarations(text: string): Declaration[] {
  const found: Declaration[] = [];
  let comment: string[] = [];
  const lines = text.split("\n");
  for (let index = 0; index < lines.length; index++) {
    const line = lines[index] as string;
    const start = /^(service|message|enum) (\w+) \{(\})?/.exec(line);
    if (line.startsWith("//")) comment.push(line.replace(/^\/\/ ?/, ""));
    else if (start) {
      const [, kind = "", name = "", closed] = start;
      const end = closed ? index : lines.indexOf("}", index);
      const body = lines.slice(index, end + 1);
      // A message without fields says nothing.
      if (!closed) found.push({ kind, name, comment: comment.join("\n"), body });
      index = end;
      comment = [];
    } else comment = [];
  }
  return found;
}

if (import.meta.main)
  for (const [path, text] of await referencePages()) {
    mkdirSync(join(root, "docs", "reference"), { recursive: true });
    writeFileSync(join(root, path), text);
  }
