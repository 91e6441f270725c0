// Reductions, softmax and normalisation: many elements become one. Their order is fixed by the shape alone: each thread of a workgroup
// adds every 64th (or 16th) element in turn, then a tree joins the threads' sums.

import { fail } from "../../core/errors.ts";
import { elementCount } from "../../core/tensor.ts";
import type { GraphNode } from "../../graph/model.ts";
import { numberOf, numbersOf } from "../../graph/operators/check.ts";
import type { View } from "../portable/views.ts";
import { type Context, type Expression, placesAt, valueAt } from "./context.ts";
import { groupsFor, literal, Shader, threads } from "./shader.ts";

/** Rows that are shorter have one thread each. */
const sharedLengthMin = 32;
/** Of a workgroup that adds rows up: neighbours read neighbours. */
const columnsTogether = 16;
const rowsTogether = 16;

/** Below every float that is not infinite. */
const lowest = literal(-3.4028234663852886e38);

type Join = (a: string, b: string) => string;
const sum: Join = (a, b) => `${a} + ${b}`;
const max: Join = (a, b) => `max(${a}, ${b})`;

/** A view as rows of elements: the axes that stay, and those that are walked. */
interface Rows {
  readonly kept: View;
  readonly walked: View;
}

function rowsOf(view: View, axes: ReadonlySet<number>): Rows {
  const part = (isWalked: boolean): View => {
    const own = [...view.shape.keys()].filter((axis) => axes.has(axis) === isWalked);
    const pick = (list: readonly number[]) => own.map((axis) => list[axis] as number);
    return { ...view, offset: isWalked ? 0 : view.offset, shape: pick(view.shape), strides: pick(view.strides) };
  };
  return { kept: part(false), walked: part(true) };
}

/** Walks of one row by one thread, or by the threads of a workgroup. */
class RowWalk {
  readonly shader = new Shader();
  readonly #lines: string[] = [];
  readonly #rows: number;
  readonly #length: number;
  readonly #isShared: boolean;
  readonly #views: readonly Rows[];
  readonly #bases: readonly string[];
  #walks = 0;

  constructor(views: readonly Rows[]) {
    this.#views = views;
    this.#rows = elementCount(views[0]?.kept.shape ?? []);
    this.#length = elementCount(views[0]?.walked.shape ?? []);
    this.#isShared = this.#length >= sharedLengthMin;
    if (this.#isShared) this.shader.share("sums", `array<f32, ${threads}>`);
    this.#lines.push(`let row = ${this.#isShared ? "group" : `group * ${threads} + lane`};`);
    this.#lines.push(`if (row >= ${this.#rows}) { return; }`);
    const { lines, at } = placesAt(
      views.map(({ kept }) => kept),
      "row",
      "o",
    );
    this.#lines.push(...lines, ...at.map((base, i) => `let base${i} = ${base};`));
    this.#bases = at.map((_, i) => `base${i}`);
  }

  add(...lines: readonly string[]): void {
    this.#lines.push(...lines);
  }

  /** A statement for each element; `at` has the places of the views. */
  each(body: (at: readonly string[]) => readonly string[]): void {
    const { lines, at } = placesAt(
      this.#views.map(({ walked }) => walked),
      "k",
      `w${this.#walks++}`,
    );
    const [first, step] = this.#isShared ? ["lane", threads] : ["0", 1];
    this.#lines.push(`for (var k = ${first}; k < ${this.#length}; k += ${step}) {`, ...lines);
    this.#lines.push(...body(at.map((inner, i) => `${this.#bases[i]} + ${inner}`)), "}");
  }

  /** What the threads of the row have, joined: the same for all of them. */
  joined(name: string, value: string, join: Join): void {
    if (!this.#isShared) {
      this.add(`let ${name} = ${value};`);
      return;
    }
    const pair = join("sums[lane]", "sums[lane + half]");
    this.add(`sums[lane] = ${value};`, "workgroupBarrier();");
    this.add(`for (var half = ${threads / 2}; half > 0; half >>= 1u) {`);
    this.add(`if (lane < half) { sums[lane] = ${pair}; }`, "workgroupBarrier();", "}");
    this.add(`let ${name} = sums[0];`, "workgroupBarrier();");
  }

  /** Once for each row. */
  once(statement: string): void {
    this.add(this.#isShared ? `if (lane == 0) { ${statement} }` : statement);
  }

  finish(context: Context, what: string): void {
    const groups = this.#isShared ? this.#rows : Math.ceil(this.#rows / threads);
    context.dispatch(this.shader.finish(what, this.#lines, [threads, 1], groupsFor(groups)));
  }
}

function checkRows(context: Context, node: GraphNode): void {
  const { dtype, shape } = context.info(node.inputs[0] as string);
  if (dtype !== "float32" || elementCount(shape) === 0)
    fail("unimplemented", `${node.op} of ${dtype}[${shape}] does not run on the GPUs of browsers`);
}

/** ReduceSum, ReduceMean and ReduceMax over any axes, with what is fused into their input. */
export function lowerReduction(context: Context, node: GraphNode): void {
  checkRows(context, node);
  const [name, out] = [node.inputs[0] as string, node.outputs[0] as string];
  const { shape } = context.info(name);
  const given = numbersOf(node.attributes, "axes");
  const axes = new Set(given?.length ? given.map((axis) => (axis < 0 ? axis + shape.length : axis)) : shape.keys());
  const expression = context.expressionOf(node, name, shape);
  const result = context.fresh("float32", context.info(out).shape);
  const count = elementCount(shape.filter((_, axis) => axes.has(axis)));
  const rule: Rule =
    node.op === "ReduceMax"
      ? { join: max, neutral: lowest, finish: (value) => value }
      : {
          join: sum,
          neutral: "0f",
          finish: (value) => (node.op === "ReduceMean" ? `${value} / ${literal(count)}` : value),
        };
  const isAcross = !axes.has(shape.length - 1) && count >= sharedLengthMin;
  (isAcross ? pushColumns : pushRows)(context, { what: node.op, expression, axes, out: result, rule });
  context.define(out, result);
}

interface Rule {
  readonly join: Join;
  readonly neutral: string;
  readonly finish: (value: string) => string;
}

interface Reduction {
  readonly what: string;
  readonly expression: Expression;
  readonly axes: ReadonlySet<number>;
  readonly out: View;
  readonly rule: Rule;
}

function pushRows(context: Context, { what, expression, axes, out, rule }: Reduction): void {
  const walk = new RowWalk(expression.leaves.map((leaf) => rowsOf(leaf, axes)));
  walk.add(`var total = ${rule.neutral};`);
  walk.each((at) => {
    const { lines, value } = valueAt(walk.shader, expression, at, "");
    return [...lines, `total = ${rule.join("total", value)};`];
  });
  walk.joined("all", "total", rule.join);
  walk.once(walk.shader.store(out, "row", rule.finish("all")));
  walk.finish(context, what);
}

/** Rows that lie side by side: a workgroup has 16 of them, and 16 threads for each. */
function pushColumns(context: Context, { what, expression, axes, out, rule }: Reduction): void {
  const shader = new Shader();
  const views = expression.leaves.map((leaf) => rowsOf(leaf, axes));
  const length = elementCount(views[0]?.walked.shape ?? []);
  const rows = elementCount(out.shape);
  const size = columnsTogether * rowsTogether;
  shader.share("sums", `array<f32, ${size}>`);
  const outer = placesAt(
    views.map(({ kept }) => kept),
    "row",
    "o",
  );
  const inner = placesAt(
    views.map(({ walked }) => walked),
    "k",
    "w",
  );
  const { lines, value } = valueAt(
    shader,
    expression,
    views.map((_, i) => `base${i} + ${inner.at[i]}`),
    "",
  );
  const body = [
    `let row = group * ${columnsTogether} + lane % ${columnsTogether};`,
    ...[`var total = ${rule.neutral};`, `if (row < ${rows}) {`, ...outer.lines],
    ...views.map((_, i) => `let base${i} = ${outer.at[i]};`),
    `for (var k = lane / ${columnsTogether}; k < ${length}; k += ${rowsTogether}) {`,
    ...[...inner.lines, ...lines, `total = ${rule.join("total", value)};`, "}", "}"],
    ...["sums[lane] = total;", "workgroupBarrier();"],
    `for (var half = ${size / 2}; half >= ${columnsTogether}; half >>= 1u) {`,
    `if (lane < half) { sums[lane] = ${rule.join("sums[lane]", "sums[lane + half]")}; }`,
    ...["workgroupBarrier();", "}"],
    `if (lane < ${columnsTogether} && row < ${rows}) { ${shader.store(out, "row", rule.finish("sums[lane]"))} }`,
  ];
  context.dispatch(shader.finish(what, body, [size, 1], groupsFor(Math.ceil(rows / columnsTogether))));
}

/** Softmax and LogSoftmax along an axis, with what is fused into their input. */
export function lowerSoftmax(context: Context, node: GraphNode): void {
  checkRows(context, node);
  const [name, out] = [node.inputs[0] as string, node.outputs[0] as string];
  const { shape } = context.info(name);
  const axis = numberOf(node.attributes, "axis", -1);
  const axes = new Set([axis < 0 ? axis + shape.length : axis]);
  const expression = context.expressionOf(node, name, shape);
  const result = context.fresh("float32", shape);
  const walk = new RowWalk([result, ...expression.leaves].map((view) => rowsOf(view, axes)));
  const { shader } = walk;
  walk.add(`var highest = ${lowest};`);
  // Each thread reads again what it has written itself, so that nobody waits for memory.
  walk.each(([to, ...at]) => {
    const { lines, value } = valueAt(shader, expression, at, "");
    return [...lines, `let x = ${value};`, shader.store(result, to as string, "x"), "highest = max(highest, x);"];
  });
  walk.joined("top", "highest", max);
  walk.add("var total = 0f;");
  const isLog = node.op === "LogSoftmax";
  walk.each(([to]) => [
    `let power = exponential(${shader.load(result, to as string)} - top);`,
    ...(isLog ? [] : [shader.store(result, to as string, "power")]),
    "total += power;",
  ]);
  walk.joined("all", "total", sum);
  walk.add(isLog ? "let level = logarithm(all);" : "let level = 1f / all;");
  walk.each(([to]) => {
    const value = shader.load(result, to as string);
    return [shader.store(result, to as string, isLog ? `(${value} - top) - level` : `${value} * level`)];
  });
  walk.finish(context, node.op);
  context.define(out, result);
}

/** LayerNormalization -> y, mean?, inverse deviation?. */
export function lowerLayerNormalization(context: Context, node: GraphNode): void {
  checkRows(context, node);
  const [x, ...affine] = node.inputs.map((name) => context.view(name)) as [View, View, View?];
  const { shape } = x;
  const axis = numberOf(node.attributes, "axis", -1);
  const first = axis < 0 ? axis + shape.length : axis;
  const axes = new Set(shape.keys().filter((each) => each >= first));
  const width = literal(elementCount(shape.slice(first)));
  const y = context.fresh("float32", shape);
  const inRow = (view: View): Rows => ({
    kept: { ...view, shape: shape.slice(0, first), strides: shape.slice(0, first).map(() => 0) },
    walked: { ...view, offset: 0 },
  });
  const walk = new RowWalk([
    rowsOf(x, axes),
    rowsOf(y, axes),
    ...affine.flatMap((view) => (view === undefined ? [] : [inRow(view)])),
  ]);
  const { shader } = walk;
  const load = (at: string | undefined) => shader.load(x, at as string);
  walk.add("var total = 0f;");
  walk.each(([from]) => [`total += ${load(from)};`]);
  walk.joined("all", "total", sum);
  walk.add(`let mean = all / ${width};`, "var squares = 0f;");
  walk.each(([from]) => [`let centred = ${load(from)} - mean;`, "squares += centred * centred;"]);
  walk.joined("spread", "squares", sum);
  walk.add(`let inverse = 1f / sqrt(spread / ${width} + ${literal(numberOf(node.attributes, "epsilon", 1e-5))});`);
  walk.each(([from, to, scale, bias]) => {
    const scaled = `(${load(from)} - mean) * inverse * ${shader.load(affine[0] as View, scale as string)}`;
    const added = affine[1] === undefined ? "" : ` + ${shader.load(affine[1], bias as string)}`;
    return [shader.store(y, to as string, scaled + added)];
  });
  for (const [i, name] of node.outputs.slice(1).entries()) {
    const result = context.fresh("float32", context.info(name).shape);
    walk.once(shader.store(result, "row", i === 0 ? "mean" : "inverse"));
    context.define(name, result);
  }
  walk.finish(context, node.op);
  context.define(node.outputs[0] as string, y);
}
