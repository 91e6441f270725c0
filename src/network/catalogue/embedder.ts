// embedder: token ids to vectors, with learned, rotary or no positions; positions: learned ones apart from it.

import { elementCount } from "../../core/tensor.ts";
import { dimension } from "./config.ts";
import {
  agree,
  type Description,
  description,
  floatInput,
  floats,
  type NodeType,
  one,
  oneOutput,
  type ParameterSpec,
  refuse,
  type Site,
  showShape,
} from "./node-type.ts";

export const embedder: NodeType = {
  type: "embedder",
  aliases: ["embedding"],
  meaning: "Token ids `[seq_len]` to vectors `[seq_len, dim]`: rows of a table of `vocab_size` rows.",
  keys: {
    vocab_size: dimension("rows of the table: every token id is below it", { required: true }),
    dim: dimension("size of a vector", { required: true }),
    seq_len: dimension("tokens in a sample"),
    position_encoding: {
      kind: "choice",
      choices: ["none", "learned", "rope"],
      default: "none",
      meaning: "`learned` adds a vector per position, `rope` rotates the vectors",
    },
    rope_theta: { kind: "number", min: 1, max: 1e9, default: 10_000, meaning: "base of the rotary frequencies" },
  },
  inputs: one,
  outputs: oneOutput,
  tiesWeights: true,
  root: (config) => ({ kind: "tokens", ...(config.has("seq_len") && { shape: [config.number("seq_len")] }) }),
  describe,
  build: (site) => {
    const { graph, config } = site;
    const table = site.tie === undefined ? site.parameter("weight") : site.tied();
    const rows = graph.op("Embedding", [table, site.input(0)]);
    switch (config.text("position_encoding")) {
      case "learned":
        return [graph.op("Add", [rows, site.positionRows(site.parameter("position"))])];
      case "rope":
        return [site.rotate(rows, { theta: config.number("rope_theta") })];
      default:
        return [rows];
    }
  },
};

function describe(site: Site): Description {
  const input = site.inputs[0]!;
  const { config } = site;
  if (input.kind !== "tokens") refuse(site, `input 0 must be token ids, found activations ${showShape(input.shape)}`);
  if (input.shape.length !== 1) refuse(site, `input 0 must be [seq_len], found ${showShape(input.shape)}`);
  const seqLen = agree(site, "seq_len", input.shape[0]!, `its input ${showShape(input.shape)}`);
  const vocabSize = config.number("vocab_size");
  const dim = config.number("dim");
  if (config.text("position_encoding") === "rope" && dim % 2 !== 0)
    refuse(site, `key "dim" must be even for position_encoding "rope", found ${dim}`);
  const parameters: ParameterSpec[] = [];
  if (site.tie === undefined)
    parameters.push({ name: "weight", shape: [vocabSize, dim], initial: { kind: "normal", deviation: 0.02 } });
  else checkTie(site, vocabSize, dim);
  if (config.text("position_encoding") === "learned")
    parameters.push({ name: "position", shape: [seqLen, dim], initial: { kind: "normal", deviation: 0.02 } });
  return description([floats([seqLen, dim])], {
    parameters,
    flops: seqLen * dim,
    idsBelow: vocabSize,
    ...(site.tie === undefined && { shared: { parameter: "weight", layout: "out_in" as const } }),
  });
}

function checkTie(site: Site, vocabSize: number, dim: number): void {
  const { shape, alias, publisher, layout } = site.tie!;
  if (layout !== "out_in" || shape[0] !== vocabSize || shape[1] !== dim)
    refuse(
      site,
      `needs a table [${vocabSize}, ${dim}], but "${publisher}" publishes ${showShape(shape)} as "${alias}"`,
    );
}

export const positions: NodeType = {
  type: "positions",
  meaning: "Adds a learned vector for each position: `[seq_len, dim] -> [seq_len, dim]`.",
  keys: {},
  inputs: one,
  outputs: oneOutput,
  describe: (site) => {
    const input = floatInput(site, 0, 2);
    if (input.shape.length !== 2) refuse(site, `input 0 must be [seq_len, dim], found ${showShape(input.shape)}`);
    return description([input], {
      parameters: [{ name: "weight", shape: input.shape, initial: { kind: "normal", deviation: 0.02 } }],
      flops: elementCount(input.shape),
    });
  },
  build: (site) => [site.graph.op("Add", [site.input(0), site.positionRows(site.parameter("weight"))])],
};
