// Commands about what there is to learn and from what: networks, datasets, pipelines, vocabularies.

import { inGroup } from "../../command.ts";

export const defineCommands = inGroup("Define", [
  {
    words: "network create",
    summary: "create a network from a YAML file",
    load: () => import("../networks/network-create.ts"),
  },
  {
    words: "network import-onnx",
    summary: "turn an ONNX model into a network with its weights",
    load: () => import("../networks/network-import-onnx.ts"),
  },
  {
    words: "network analyze",
    summary: "shapes, parameters, FLOPs and VNodes of a YAML file",
    load: () => import("../networks/network-analyze.ts"),
  },
  {
    words: "network list",
    summary: "networks that were created",
    load: () => import("../networks/network-list.ts"),
  },
  {
    words: "network show",
    summary: "one network with its VNodes",
    load: () => import("../networks/network-show.ts"),
  },
  {
    words: "network delete",
    also: ["network remove"],
    summary: "delete a network",
    load: () => import("../networks/network-delete.ts"),
  },
  {
    words: "dataset add",
    summary: "add a dataset from a file, address, bucket or stdin",
    load: () => import("../data/dataset-add.ts"),
  },
  {
    words: "dataset list",
    summary: "datasets there are",
    load: () => import("../data/dataset-list.ts"),
  },
  {
    words: "dataset show",
    summary: "a dataset and some of its samples",
    load: () => import("../data/dataset-show.ts"),
  },
  {
    words: "dataset split",
    summary: "split a dataset into training and validation parts",
    load: () => import("../data/dataset-split.ts"),
  },
  {
    words: "dataset tokenize",
    also: ["dataset tokenise"],
    summary: "turn text into tokens",
    load: () => import("../data/dataset-tokenize.ts"),
  },
  {
    words: "dataset remove",
    also: ["dataset delete"],
    summary: "remove a dataset",
    load: () => import("../data/dataset-remove.ts"),
  },
  {
    words: "data",
    summary: "run a data pipeline: filter, leave out copies, mix, shuffle, tokenise, ask models",
    load: () => import("../data/data.ts"),
  },
  {
    words: "data work",
    summary: "run data jobs of yours, beside the files that they read",
    load: () => import("../data/data-work.ts"),
  },
  {
    words: "vocab train",
    summary: "learn a vocabulary from text",
    load: () => import("../data/vocab-train.ts"),
  },
  {
    words: "vocab add",
    summary: "keep a tokenizer.json under a name",
    load: () => import("../data/vocab-add.ts"),
  },
  {
    words: "vocab list",
    summary: "vocabularies there are",
    load: () => import("../data/vocab-list.ts"),
  },
  {
    words: "vocab show",
    summary: "a vocabulary, and how it cuts a text",
    load: () => import("../data/vocab-show.ts"),
  },
  {
    words: "vocab export",
    summary: "write a vocabulary as tokenizer.json",
    load: () => import("../data/vocab-export.ts"),
  },
  {
    words: "vocab remove",
    also: ["vocab delete"],
    summary: "remove a vocabulary",
    load: () => import("../data/vocab-remove.ts"),
  },
]);
