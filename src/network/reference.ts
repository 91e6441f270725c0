// Renders the catalogue as Markdown: docs/reference/nodes.md is its output, so that it cannot fall behind.

import { commonKeys, expectation, type KeySpec, type KeySpecs } from "./catalogue/config.ts";
import { nodeTypes } from "./catalogue/registry.ts";

export function renderReference(): string {
  return [
    "# Node types",
    "",
    "Written by `src/network/reference.ts` from the catalogue; change it there. A batch dimension is implied in front of",
    "every shape. Values may be text, numbers, true or false. Keys without a default are inferred from the shapes, unless required.",
    "",
    "Initial weights: `linear`, `attention` and `conv2d` are uniform within 1 / sqrt(inputs of one output); embeddings are",
    "normal with deviation 0.02; norms begin at scale 1 and shift 0. Biases follow their matrix.",
    "",
    "## Keys of every node",
    "",
    ...keyTable(commonKeys),
    ...nodeTypes.flatMap((nodeType) => {
      const names = [nodeType.type, ...(nodeType.aliases ?? [])].map((name) => `\`${name}\``);
      const keys = Object.keys(nodeType.keys).length > 0 ? keyTable(nodeType.keys) : ["No keys of its own."];
      return ["", `## ${names.join(", ")}`, "", nodeType.meaning, "", ...keys];
    }),
    "",
  ].join("\n");
}

function keyTable(keys: KeySpecs): string[] {
  const rows = Object.entries(keys).map(([key, spec]) => {
    const names = [key, ...(spec.aliases ?? [])].map((name) => `\`${name}\``).join(", ");
    return `| ${names} | ${expectation(spec)} | ${standard(spec)} | ${spec.meaning} |`;
  });
  return ["| key | value | default | meaning |", "|---|---|---|---|", ...rows];
}

function standard(spec: KeySpec): string {
  if (spec.required) return "required";
  return spec.default === undefined ? "" : `\`${spec.default}\``;
}
