// What scikit-learn's exporter writes (domain ai.onnx.ml): linear models keep their weights as attributes, which become
// initializers first, so that they can be trained like any others; the rest is translated as it stands.

import type { Tensor } from "../../core/tensor.ts";
import type { OnnxGraph, OnnxNode } from "../onnx-parse.ts";
import { Site, type Translation, type Translations, tensorOf } from "./site.ts";

const domain = "ai.onnx.ml";

/** Linear classifiers and regressors as Gemm with initializers. */
export function expandLinearModels(graph: OnnxGraph): OnnxGraph {
  if (!graph.nodes.some(isLinear)) return graph;
  const initializers = new Map(graph.initializers);
  const nodes = graph.nodes.flatMap((node) => (isLinear(node) ? expanded(node, initializers) : [node]));
  return { ...graph, nodes: nodes.map((node) => withoutEffect(node, nodes)), initializers };
}

/** Probabilities add up to 1 already: dividing them by their sum would hide that they come from a softmax. */
function withoutEffect(node: OnnxNode, nodes: readonly OnnxNode[]): OnnxNode {
  const isSum = node.type === "Normalizer" && node.attributes["norm"] === "L1";
  const before = isSum ? nodes.find(({ outputs }) => outputs.includes(node.inputs[0] ?? "")) : undefined;
  return before?.type === "Softmax" ? { ...node, type: "Identity", domain: "", attributes: {} } : node;
}

function isLinear({ domain: given, type }: OnnxNode): boolean {
  return given === domain && (type === "LinearClassifier" || type === "LinearRegressor");
}

function expanded(node: OnnxNode, initializers: Map<string, Tensor>): OnnxNode[] {
  const [x = ""] = node.inputs;
  const [label, scores = label] = node.type === "LinearClassifier" ? node.outputs : ["", node.outputs[0]];
  const { coefficients = [], intercepts, targets = 1, post_transform: after = "NONE" } = node.attributes;
  const site = new Site(undefined as never, node, [], { opset: 0 });
  const classes = node.attributes["classlabels_strings"] ?? node.attributes["classlabels_ints"];
  const rows =
    node.type === "LinearRegressor" ? Number(targets) : ((intercepts as number[]) ?? (classes as number[]))?.length;
  const values = coefficients as number[];
  const width = values.length / rows;
  if (!Number.isInteger(width) || width < 1) site.refuse(`${values.length} coefficients do not make ${rows} rows`);
  if (classes !== undefined && (classes as readonly unknown[]).length !== rows)
    site.refuse(
      `one row of coefficients for two classes is not supported: ${rows} rows for ${(classes as readonly unknown[]).length}`,
    );
  const name = node.name || scores || "linear";
  const [weight, bias] = [`${name}.coefficients`, `${name}.intercepts`];
  initializers.set(weight, tensorOf("float32", [rows, width], values));
  initializers.set(bias, tensorOf("float32", [rows], (intercepts as number[]) ?? new Float32Array(rows)));
  const step = (
    type: string,
    inputs: string[],
    outputs: string[],
    attributes: OnnxNode["attributes"] = {},
  ): OnnxNode => ({
    type,
    domain: "",
    name: `${name}.${type}`,
    inputs,
    outputs,
    attributes,
  });
  const raw = after === "NONE" ? (scores as string) : `${name}.raw`;
  const nodes = [step("Gemm", [x, weight, bias], [raw], { transB: 1 })];
  if (after === "SOFTMAX") nodes.push(step("Softmax", [raw], [scores as string], { axis: -1 }));
  else if (after === "LOGISTIC") nodes.push(step("Sigmoid", [raw], [scores as string]));
  else if (after !== "NONE") site.refuse(`post_transform "${after}" is not supported: NONE, SOFTMAX and LOGISTIC are`);
  if (label !== undefined && label !== "" && label !== scores)
    nodes.push(step("ArgMax", [scores as string], [label], { axis: 1, keepdims: 0 }));
  return nodes;
}

/** One number, or one for each feature. */
const scaler: Translation = (site) => {
  const x = site.cast(site.input(0), "float32");
  const vector = (values: readonly number[] | undefined, otherwise: number) =>
    site.floats([values?.length ?? 1], values ?? [otherwise]);
  const shifted = site.sub(x, vector(site.numbers("offset"), 0));
  return site.mul(shifted, vector(site.numbers("scale"), 1));
};

const normalizer: Translation = (site) => {
  const x = site.input(0);
  const norm = site.text("norm", "MAX");
  const axis = x.shape.length - 1;
  const size =
    norm === "L2"
      ? site.op("Sqrt", [site.reduce("Sum", site.mul(x, x), [axis])])
      : site.reduce(norm === "L1" ? "Sum" : "Max", norm === "L1" ? site.op("Abs", [x]) : x, [axis]);
  return site.div(x, site.where(site.op("Equal", [size, site.scalar(0)]), 1, size));
};

export const linearModels: Translations = {
  [`${domain}.Scaler`]: scaler,
  [`${domain}.Normalizer`]: normalizer,
  [`${domain}.ArrayFeatureExtractor`]: (site) =>
    site.op("Gather", [site.input(0), site.input(1)], { axis: site.input(0).shape.length - 1 }),
  // A map from names to numbers: here, the numbers.
  [`${domain}.ZipMap`]: (site) => {
    site.ignore("classlabels_strings", "classlabels_int64s");
    return site.input(0);
  },
};

/** Names of classes, where the file has them: a classifier's own labels, or what the exporter noted. */
export function classNamesOf(graph: OnnxGraph): readonly string[] | undefined {
  for (const { attributes } of graph.nodes) {
    const names =
      attributes["classlabels_strings"] ?? attributes["classlabels_int64s"] ?? attributes["classlabels_ints"];
    if (Array.isArray(names) && names.length > 1) return names.map(String);
  }
  for (const node of graph.nodes) {
    const names = node.type === "ArrayFeatureExtractor" ? graph.texts.get(node.inputs[0] ?? "") : undefined;
    if (names !== undefined && names.length > 1) return names;
  }
  for (const key of ["classes", "class_names", "labels", "names"]) {
    const names = listIn(graph.notes.get(key));
    if (names !== undefined && names.length > 1) return names;
  }
  return undefined;
}

/** A JSON list, a JSON object or Python dictionary from numbers to names, or names with commas. */
function listIn(note: string | undefined): readonly string[] | undefined {
  if (note === undefined || note.length > 1 << 20) return undefined;
  if (note.startsWith("{")) {
    const pairs = [...note.matchAll(/["']?(\d+)["']?\s*:\s*(?:"([^"]*)"|'([^']*)')/g)];
    const names = pairs.map(([, index, double, single]) => [Number(index), double ?? single ?? ""] as const);
    const inOrder = names.every(([index], i) => index === i);
    return inOrder ? names.map(([, name]) => name) : undefined;
  }
  try {
    const list: unknown = JSON.parse(note);
    return Array.isArray(list) && list.every((name) => typeof name === "string") ? list : undefined;
  } catch {
    return note.includes(",") ? note.split(",").map((name) => name.trim()) : undefined;
  }
}
