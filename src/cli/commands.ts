// All commands by their words. Each is loaded only when it is used, so that `dcnr --help` stays quick.

import type { CommandEntry } from "./command.ts";

export const commands: readonly CommandEntry[] = [
  {
    group: "Run",
    words: "up",
    summary: "a whole network on this machine: orchestrator and PNodes",
    load: () => import("./commands/up.ts"),
  },
  {
    group: "Run",
    words: "orchestrator",
    summary: "an orchestrator on this machine",
    load: () => import("./commands/orchestrator.ts"),
  },
  { group: "Run", words: "join", summary: "lend this machine to a network", load: () => import("./commands/join.ts") },
  {
    group: "Run",
    words: "lend",
    summary: "pause, resume or end the lending of this machine",
    load: () => import("./commands/lend.ts"),
  },
  {
    group: "Run",
    words: "demo",
    summary: "the whole story in some two minutes: train, lose a PNode, recover",
    load: () => import("./commands/demo.ts"),
  },
  {
    group: "Define",
    words: "network create",
    summary: "create a network from a YAML file",
    load: () => import("./commands/network-create.ts"),
  },
  {
    group: "Define",
    words: "network import-onnx",
    summary: "turn an ONNX model into a network with its weights",
    load: () => import("./commands/network-import-onnx.ts"),
  },
  {
    group: "Define",
    words: "network analyze",
    summary: "shapes, parameters, FLOPs and VNodes of a YAML file",
    load: () => import("./commands/network-analyze.ts"),
  },
  {
    group: "Define",
    words: "network list",
    summary: "networks that were created",
    load: () => import("./commands/network-list.ts"),
  },
  {
    group: "Define",
    words: "network show",
    summary: "one network with its VNodes",
    load: () => import("./commands/network-show.ts"),
  },
  {
    group: "Define",
    words: "network delete",
    also: ["network remove"],
    summary: "delete a network",
    load: () => import("./commands/network-delete.ts"),
  },
  {
    group: "Define",
    words: "dataset add",
    summary: "add a dataset from a file, address, bucket or stdin",
    load: () => import("./commands/dataset-add.ts"),
  },
  {
    group: "Define",
    words: "dataset list",
    summary: "datasets there are",
    load: () => import("./commands/dataset-list.ts"),
  },
  {
    group: "Define",
    words: "dataset show",
    summary: "a dataset and some of its samples",
    load: () => import("./commands/dataset-show.ts"),
  },
  {
    group: "Define",
    words: "dataset split",
    summary: "split a dataset into training and validation parts",
    load: () => import("./commands/dataset-split.ts"),
  },
  {
    group: "Define",
    words: "dataset tokenize",
    also: ["dataset tokenise"],
    summary: "turn text into tokens",
    load: () => import("./commands/dataset-tokenize.ts"),
  },
  {
    group: "Define",
    words: "dataset remove",
    also: ["dataset delete"],
    summary: "remove a dataset",
    load: () => import("./commands/dataset-remove.ts"),
  },
  {
    group: "Define",
    words: "vocab train",
    summary: "learn a vocabulary from text",
    load: () => import("./commands/vocab-train.ts"),
  },
  {
    group: "Define",
    words: "vocab add",
    summary: "keep a tokenizer.json under a name",
    load: () => import("./commands/vocab-add.ts"),
  },
  {
    group: "Define",
    words: "vocab list",
    summary: "vocabularies there are",
    load: () => import("./commands/vocab-list.ts"),
  },
  {
    group: "Define",
    words: "vocab show",
    summary: "a vocabulary, and how it cuts a text",
    load: () => import("./commands/vocab-show.ts"),
  },
  {
    group: "Define",
    words: "vocab export",
    summary: "write a vocabulary as tokenizer.json",
    load: () => import("./commands/vocab-export.ts"),
  },
  {
    group: "Define",
    words: "vocab remove",
    also: ["vocab delete"],
    summary: "remove a vocabulary",
    load: () => import("./commands/vocab-remove.ts"),
  },
  {
    group: "Train",
    words: "train",
    summary: "train a network on a dataset and watch it",
    load: () => import("./commands/train.ts"),
  },
  {
    group: "Train",
    words: "session create",
    summary: "a session that waits to be started",
    load: () => import("./commands/session-create.ts"),
  },
  {
    group: "Train",
    words: "session list",
    summary: "training sessions",
    load: () => import("./commands/session-list.ts"),
  },
  {
    group: "Train",
    words: "session show",
    summary: "one session: settings, progress, step root",
    load: () => import("./commands/session-show.ts"),
  },
  {
    group: "Train",
    words: "session suspend",
    summary: "pause a session",
    load: () => import("./commands/session-suspend.ts"),
  },
  {
    group: "Train",
    words: "session resume",
    also: ["session start"],
    summary: "start a session, or go on from its recovery line",
    load: () => import("./commands/session-resume.ts"),
  },
  {
    group: "Train",
    words: "session watch",
    also: ["session listen"],
    summary: "live progress of a session",
    load: () => import("./commands/session-watch.ts"),
  },
  {
    group: "Train",
    words: "session samples",
    summary: "which samples each step used; none lost, none twice",
    load: () => import("./commands/session-samples.ts"),
  },
  {
    group: "Train",
    words: "session metrics",
    summary: "metrics of a session as a table, CSV or JSON",
    load: () => import("./commands/session-metrics.ts"),
  },
  {
    group: "Train",
    words: "session clone",
    summary: "a session that starts from another's weights",
    load: () => import("./commands/session-clone.ts"),
  },
  {
    group: "Train",
    words: "session export",
    summary: "a session's weights as a safetensors file",
    load: () => import("./commands/session-export.ts"),
  },
  {
    group: "Train",
    words: "session delete",
    also: ["session remove"],
    summary: "delete a session",
    load: () => import("./commands/session-delete.ts"),
  },
  {
    group: "Use",
    words: "serve",
    summary: "serve a trained session or an imported model",
    load: () => import("./commands/serve.ts"),
  },
  {
    group: "Use",
    words: "infer",
    summary: "continue a prompt, or run samples through a model",
    load: () => import("./commands/infer.ts"),
  },
  {
    group: "Use",
    words: "validate",
    summary: "loss and accuracy on a split of a dataset",
    load: () => import("./commands/validate.ts"),
  },
  {
    group: "Use",
    words: "chat",
    summary: "talk to a served model",
    load: () => import("./commands/chat.ts"),
  },
  {
    group: "Use",
    words: "model import",
    summary: "import a Hugging Face folder, a GGUF file or an exported file",
    load: () => import("./commands/model-import.ts"),
  },
  {
    group: "Use",
    words: "model pull",
    summary: "fetch a model's files from a hub",
    load: () => import("./commands/model-pull.ts"),
  },
  {
    group: "Use",
    words: "model export",
    summary: "a model as a folder of files",
    load: () => import("./commands/model-export.ts"),
  },
  {
    group: "Use",
    words: "model list",
    summary: "models that are served or were imported",
    load: () => import("./commands/model-list.ts"),
  },
  {
    group: "Use",
    words: "model stop",
    summary: "stop serving a model",
    load: () => import("./commands/model-stop.ts"),
  },
  {
    group: "Use",
    words: "model remove",
    also: ["model delete"],
    summary: "forget a model",
    load: () => import("./commands/model-remove.ts"),
  },
  {
    group: "Use",
    words: "key create",
    summary: "an API key for callers from elsewhere",
    load: () => import("./commands/key-create.ts"),
  },
  {
    group: "Use",
    words: "key list",
    summary: "API keys",
    load: () => import("./commands/key-list.ts"),
  },
  {
    group: "Use",
    words: "key delete",
    summary: "delete an API key",
    load: () => import("./commands/key-delete.ts"),
  },
  {
    group: "Look",
    words: "nodes",
    summary: "PNodes: hardware, load, reliability",
    load: () => import("./commands/nodes.ts"),
  },
  {
    group: "Operate",
    words: "invite",
    summary: "a link with which others lend their machines",
    load: () => import("./commands/invite.ts"),
  },
  {
    group: "Operate",
    words: "nodes policy",
    summary: "who may join: open, invited or listed",
    load: () => import("./commands/nodes-policy.ts"),
  },
  {
    group: "Operate",
    words: "nodes admit",
    summary: "let a machine join by its key",
    load: () => import("./commands/nodes-admit.ts"),
  },
  {
    group: "Operate",
    words: "nodes drain",
    summary: "move everything away from a PNode",
    load: () => import("./commands/nodes-drain.ts"),
  },
  {
    group: "Operate",
    words: "nodes revoke",
    summary: "send a PNode away for good",
    load: () => import("./commands/nodes-revoke.ts"),
  },
  {
    group: "Operate",
    words: "nodes forget",
    summary: "remove the record of a PNode that is gone",
    load: () => import("./commands/nodes-forget.ts"),
  },
  {
    group: "Look",
    words: "vnodes",
    summary: "VNodes: where each is, its step, why it waits",
    load: () => import("./commands/vnodes.ts"),
  },
  {
    group: "Look",
    words: "status",
    summary: "the network at a glance, and why anything waits",
    load: () => import("./commands/status.ts"),
  },
  { group: "Look", words: "events", summary: "what happened", load: () => import("./commands/events.ts") },
  {
    group: "Look",
    words: "top",
    summary: "a live view of nodes, sessions and rates",
    load: () => import("./commands/top.ts"),
  },
  {
    group: "More",
    words: "engine add",
    also: ["engine install"],
    summary: "install the native runtime, or the client of a database",
    load: () => import("./commands/engine-add.ts"),
  },
  {
    group: "More",
    words: "engine list",
    summary: "engines and clients that are here, and what others bring",
    load: () => import("./commands/engine-list.ts"),
  },
  {
    group: "More",
    words: "engine remove",
    summary: "remove what was added",
    load: () => import("./commands/engine-remove.ts"),
  },
  {
    group: "More",
    words: "simulate",
    summary: "run seeded worlds full of faults and compare step roots",
    load: () => import("./commands/simulate.ts"),
  },
  {
    group: "More",
    words: "config",
    summary: "settings and where they come from",
    load: () => import("./commands/config.ts"),
  },
  {
    group: "More",
    words: "completion",
    summary: "shell completion for bash, zsh or fish",
    load: () => import("./commands/completion.ts"),
  },
  {
    group: "More",
    words: "version",
    summary: "versions of this program and of the orchestrator",
    load: () => import("./commands/version.ts"),
  },
];

export interface Found {
  readonly entry: CommandEntry;
  readonly rest: string[];
}

/** The command whose words begin the command line. */
export function findCommand(words: readonly string[]): Found | undefined {
  for (const length of [2, 1]) {
    const typed = words.slice(0, length).join(" ");
    const entry = commands.find((candidate) => candidate.words === typed || candidate.also?.includes(typed));
    if (entry && words.length >= length) return { entry, rest: words.slice(length) };
  }
  return undefined;
}
