// `dcnr network import-onnx`: an ONNX model becomes a network, its weights a model to serve or train on.

import { readFile, stat, writeFile } from "node:fs/promises";
import { basename } from "node:path";
import { fail } from "../../../core/errors.ts";
import { importOnnx } from "../../../network/onnx/import-onnx.ts";
import type { Command, Flags } from "../../command.ts";
import { storeModel } from "../../content/model-files.ts";
import { connectionOptions, withClient } from "../../joining/connection.ts";

/** Files beyond two gigabytes keep their weights elsewhere, which we do not follow. */
const fileBytesMax = 2 ** 31;
const costs = ["mse", "ce", "ce_logits", "none"] as const;

export const command: Command = {
  summary:
    "Turn an ONNX model of known operators into a network, split where its pieces can live apart, with its weights.",
  positionals: [{ name: "FILE" }],
  options: {
    ...connectionOptions,
    name: { type: "string", value: "NAME", summary: "name of the network and the model (default: the file's)" },
    cost: {
      type: "string",
      value: "COST",
      summary: "loss behind the output: mse, ce, ce_logits or none (default: by its last operator)",
    },
    pieces: { type: "number", least: 1, value: "N", summary: "VNodes to make at most", default: 32 },
    size: {
      type: "string",
      value: "NAME=N",
      many: true,
      summary: "a size that the file leaves open, such as sequence=128",
    },
    fix: {
      type: "string",
      value: "INPUT=NUMBER",
      many: true,
      summary: "an input that is one number everywhere, such as attention_mask=1; one input is left to be fed",
    },
    take: {
      type: "string",
      value: "OUTPUT",
      summary: "which output to take (default: the only one, or the only floats)",
    },
    classes: {
      type: "string",
      value: "A,B,...",
      summary: "names of the output's classes, for answers (default: those in the file)",
    },
    constant: { type: "string", value: "WEIGHT", many: true, summary: "a tensor of the file that must not learn" },
    trainable: {
      type: "string",
      value: "WEIGHT",
      many: true,
      summary: "a tensor of the file that learns, though it looks like a constant",
    },
    output: { type: "string", value: "FILE", summary: "only write the definition here; nothing is created" },
  },
  examples: [
    "dcnr network import-onnx digits.onnx",
    "dcnr network import-onnx encoder.onnx --size sequence=128 --cost mse --name encoder",
    "dcnr network import-onnx bert.onnx --size sequence=128 --fix attention_mask=1 --fix token_type_ids=0",
    "dcnr network import-onnx flowers.onnx --classes setosa,versicolor,virginica",
    "dcnr network import-onnx digits.onnx --output digits.yaml",
  ],
  run: async (context) => {
    const { flags, out } = context;
    const path = context.arguments[0] ?? "";
    const name = flags.optionalText("name") ?? nameOf(path);
    const take = flags.optionalText("take");
    const names = flags.optionalText("classes")?.split(",");
    const { definition, weights, constants, classes } = importOnnx(await readModel(path), {
      name,
      ...costOf(flags),
      piecesMax: flags.number("pieces"),
      sizes: sizesOf(flags),
      fixed: fixedOf(flags),
      ...(take !== undefined && { output: take }),
      ...(names !== undefined && { classes: names.map((each) => each.trim()) }),
      constant: flags.texts("constant"),
      trainable: flags.texts("trainable"),
    });
    const file = flags.optionalText("output");
    if (file !== undefined) {
      await writeFile(file, definition);
      if (flags.is("json")) out.json({ name, definition: file });
      else out.line(`wrote ${file}`);
      return undefined;
    }
    return withClient(context, async (client) => {
      const load = async (parameter: string) =>
        weights.get(parameter) ?? fail("internal", `the imported model has no weights for ${parameter}`);
      const model = await storeModel(context, client, { name, definition, load });
      const { network } = await client.networks.get(name);
      if (flags.is("json")) return void out.json({ network, model });
      out.line(
        `created network ${name}: ${network?.vnodes} VNodes, ${model.parameters.toLocaleString("en")} parameters with the file's weights`,
      );
      if (constants.length > 0)
        out.line(`constants that do not learn: ${listed(constants)} (--trainable NAME changes that)`);
      if (classes) out.line(`classes: ${listed(classes)}`);
      out.advice(`Train it: dcnr train ${name} --from ${name} --dataset NAME   or serve it: dcnr serve ${name}`);
      return undefined;
    });
  },
};

async function readModel(path: string): Promise<Uint8Array> {
  const found = await stat(path).catch(() => undefined);
  if (!found?.isFile()) fail("not_found", `there is no file ${path}: give the path of an ONNX model`);
  if (found.size > fileBytesMax)
    fail("resource_exhausted", `${path} has ${found.size} bytes, too many for an ONNX file`);
  return readFile(path);
}

function costOf(flags: Flags): { cost?: (typeof costs)[number] } {
  const text = flags.optionalText("cost");
  if (text === undefined) return {};
  const cost = costs.find((one) => one === text);
  return { cost: cost ?? fail("invalid_argument", `--cost is one of ${costs.join(", ")}, not ${text}`) };
}

function sizesOf(flags: Flags): Record<string, number> {
  return Object.fromEntries(
    flags.texts("size").map((text) => {
      const [name = "", value = ""] = text.split("=");
      const size = Number(value);
      if (name === "" || !Number.isSafeInteger(size) || size < 1)
        fail("invalid_argument", `--size is given as NAME=N, such as sequence=128, not ${text}`);
      return [name, size];
    }),
  );
}

function fixedOf(flags: Flags): Record<string, number> {
  return Object.fromEntries(
    flags.texts("fix").map((text) => {
      const [, name = "", value = ""] = /^(.+)=(.+)$/.exec(text) ?? [];
      if (name === "" || !Number.isFinite(Number(value)))
        fail("invalid_argument", `--fix is given as INPUT=NUMBER, such as attention_mask=1, not ${text}`);
      return [name, Number(value)];
    }),
  );
}

/** More names than these would hide the others. */
const listedMax = 8;

function listed(names: readonly string[]): string {
  const more = names.length > listedMax ? ` and ${names.length - listedMax} more` : "";
  return names.slice(0, listedMax).join(", ") + more;
}

function nameOf(path: string): string {
  return (
    basename(path)
      .replace(/\.onnx$/i, "")
      .replace(/[^A-Za-z0-9_.-]+/g, "-")
      .replace(/^[^A-Za-z0-9]+/, "") || "network"
  );
}
