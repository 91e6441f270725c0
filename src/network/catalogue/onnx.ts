// onnx: a piece of an imported model, held by the definition itself. `dcnr network import-onnx` writes it; its
// weights come as initial state.

import { elementCount, sameShape } from "../../core/tensor.ts";
import { GraphBuilder } from "../../graph/builder.ts";
import { costOf } from "../../graph/cost.ts";
import { lowerModel } from "../../graph/lower.ts";
import { buildTemplate, decodeTemplate, type Template } from "../onnx/template.ts";
import {
  description,
  floats,
  type NodeType,
  one,
  oneOutput,
  refuse,
  type Site,
  showShape,
  uniform,
} from "./node-type.ts";

export const onnx: NodeType = {
  type: "onnx",
  meaning: "A piece of an imported ONNX model. `dcnr network import-onnx` writes it.",
  keys: { graph: { kind: "text", required: true, meaning: "the piece's operators in base64, without its weights" } },
  inputs: one,
  outputs: oneOutput,
  root: (config) => {
    const { kind, shape } = decodeTemplate(config.text("graph"), `node "${config.node}"`).input;
    return { kind, shape };
  },
  describe: (site) => {
    const template = templateOf(site);
    const { input, output } = template;
    const given = site.inputs[0]!;
    if (given.kind !== input.kind || !sameShape(given.shape, input.shape))
      refuse(
        site,
        `its graph takes ${input.kind} ${showShape(input.shape)}, but input 0 is ${given.kind} ${showShape(given.shape)}`,
      );
    const graph = new GraphBuilder(site.id);
    const x = graph.input("x", input.kind === "tokens" ? "int32" : "float32", [1, ...input.shape]);
    const shapes = new Map(template.parameters.map(({ name, shape }) => [name, shape]));
    const result = buildTemplate(template, graph, x, 1, (name) =>
      graph.input(`weight ${name}`, "float32", shapes.get(name)!),
    );
    if (!sameShape(result.shape, [1, ...output.shape]))
      refuse(site, `its graph gives ${showShape(result.shape.slice(1))}, but says ${showShape(output.shape)}`);
    graph.output(result, "y");
    const model = lowerModel(graph.build());
    return description([floats(output.shape)], {
      parameters: template.parameters.map(({ name, shape }) => ({ name, shape, initial: uniform(fanIn(shape)) })),
      flops: costOf(model).flops,
      saved: elementCount(output.shape),
      ...(input.kind === "tokens" && { idsBelow: tableRows(template) }),
    });
  },
  build: (site) => [
    buildTemplate(templateOf(site), site.graph, site.input(0), site.batch, (name) => site.parameter(name)),
  ],
};

function templateOf(site: Site): Template {
  return decodeTemplate(site.config.text("graph"), `node "${site.id}"`);
}

function fanIn(shape: readonly number[]): number {
  return Math.max(1, shape.length > 1 ? elementCount(shape) / Math.max(...shape) : (shape[0] ?? 1));
}

/** Rows of the smallest table that the ids are looked up in, seen through changes of type and shape. */
function tableRows({ input, nodes, parameters }: Template): number | undefined {
  const ids = new Set([input.name]);
  const rows: number[] = [];
  for (const { op, inputs, outputs } of nodes) {
    if (["Cast", "Reshape", "Squeeze", "Unsqueeze"].includes(op) && ids.has(inputs[0]!)) ids.add(outputs[0]!);
    if (op === "Gather" && ids.has(inputs[1]!))
      rows.push(...parameters.filter(({ name }) => name === inputs[0]).map(({ shape }) => shape[0]!));
  }
  return rows.length > 0 ? Math.min(...rows) : undefined;
}
