// `dcnr network analyze`: what a definition needs, before anything runs. Needs no orchestrator.

import { analyze, renderAnalysis } from "../../../network/analyze.ts";
import type { Command } from "../../command.ts";
import { readTextFile } from "../../flags/files.ts";

export const command: Command = {
  summary: "Show shapes, parameters, FLOPs, memory, and which nodes were fused into which VNode.",
  positionals: [{ name: "FILE" }],
  examples: ["dcnr network analyze examples/t1.yaml", "dcnr network analyze examples/mlp.yaml --json"],
  run: async ({ arguments: [file = ""], flags, out }) => {
    const analysis = analyze(await readTextFile(file, "network definition"));
    if (flags.is("json")) out.json(analysis);
    else out.line(renderAnalysis(analysis, out.width));
    return undefined;
  },
};
