// RNN, LSTM and GRU of ONNX files, unrolled over time: the inputs' share of all steps is one product, each step adds
// its product with the state. W is [directions, gates * hidden, input], R [directions, gates * hidden, hidden].

import type { Value } from "../operators/operator.ts";
import type { Site, Translation, Translations } from "./site.ts";

/** A longer sequence would be a graph of tens of thousands of nodes. */
const stepsMax = 512;

interface Layer {
  readonly hidden: number;
  readonly batch: number;
  /** Of every step, in the order in which this direction reads them: the inputs' share [batch, gates * hidden]. */
  readonly inputs: readonly Value[];
  /** R turned: [hidden, gates * hidden]. */
  readonly recurrent: Value;
  /** The bias of the recurrent share, [gates * hidden]; the other one is in `inputs` already. */
  readonly bias: Value | undefined;
}

/** One direction of a layer: h (and c) before the first step in, h of every step and c at the end out. */
type Cell = (site: Site, layer: Layer, h: Value, c: Value) => { outputs: Value[]; c: Value };

function times(site: Site, { recurrent, bias }: Pick<Layer, "recurrent" | "bias">, h: Value): Value {
  const product = site.op("MatMul", [h, recurrent]);
  return bias === undefined ? product : site.add(product, bias);
}

/** The gate's columns. */
function gate(site: Site, x: Value, index: number, hidden: number): Value {
  return site.slice(x, 1, index * hidden, (index + 1) * hidden);
}

const lstmCell: Cell = (site, layer, first, firstCell) => {
  const { hidden } = layer;
  let [h, c] = [first, firstCell];
  const outputs: Value[] = [];
  for (const share of layer.inputs) {
    const gates = site.add(share, times(site, layer, h));
    const sigmoid = (index: number) => site.op("Sigmoid", [gate(site, gates, index, hidden)]);
    const kept = site.mul(sigmoid(2), c);
    c = site.add(kept, site.mul(sigmoid(0), site.op("Tanh", [gate(site, gates, 3, hidden)])));
    h = site.mul(sigmoid(1), site.op("Tanh", [c]));
    outputs.push(h);
  }
  return { outputs, c };
};

const gruCell =
  (resetFirst: boolean): Cell =>
  (site, layer, first) => {
    const { hidden, recurrent, bias } = layer;
    let h = first;
    const outputs: Value[] = [];
    const part = (from: number, to: number) => ({
      recurrent: site.slice(recurrent, 1, from * hidden, to * hidden),
      bias: bias && site.slice(bias, 0, from * hidden, to * hidden),
    });
    const [both, last] = [part(0, 2), part(2, 3)];
    for (const share of layer.inputs) {
      const gates = site.op("Sigmoid", [site.add(site.slice(share, 1, 0, 2 * hidden), times(site, both, h))]);
      const [update, reset] = [gate(site, gates, 0, hidden), gate(site, gates, 1, hidden)];
      const memory = resetFirst ? times(site, last, site.mul(reset, h)) : site.mul(reset, times(site, last, h));
      const fresh = site.op("Tanh", [site.add(gate(site, share, 2, hidden), memory)]);
      // (1 - z) * fresh + z * h
      h = site.add(fresh, site.mul(update, site.sub(h, fresh)));
      outputs.push(h);
    }
    return { outputs, c: h };
  };

const rnnCell =
  (activation: string): Cell =>
  (site, layer, first) => {
    let h = first;
    const outputs: Value[] = [];
    for (const share of layer.inputs) {
      h = site.op(activation, [site.add(share, times(site, layer, h))]);
      outputs.push(h);
    }
    return { outputs, c: h };
  };

const usual = { RNN: ["Tanh"], GRU: ["Sigmoid", "Tanh"], LSTM: ["Sigmoid", "Tanh", "Tanh"] } as const;

function cellOf(site: Site, kind: keyof typeof usual, directions: number): Cell {
  const expected = Array.from({ length: directions }, () => usual[kind]).flat();
  const given = site.texts("activations") ?? expected;
  const isRelu = kind === "RNN" && given.every((name) => name === "Relu");
  if (String(given) !== String(expected) && !isRelu)
    site.refuse(
      `its activations ${given.join(", ")} are not supported, only ${expected.join(", ")}${kind === "RNN" ? " or Relu" : ""}`,
    );
  if (kind === "LSTM") {
    site.only("input_forget", 0);
    return lstmCell;
  }
  if (kind === "GRU") return gruCell(site.number("linear_before_reset", 0) === 0);
  return rnnCell(given[0] as string);
}

/** One direction's share of an input [directions, ..]. */
function ofDirection(site: Site, value: Value | undefined, index: number): Value | undefined {
  if (value === undefined) return undefined;
  return site.reshape(site.slice(value, 0, index, index + 1), value.shape.slice(1));
}

function recurrentLayer(kind: keyof typeof usual): Translation {
  return (site) => {
    const batchFirst = site.number("layout", 0) === 1;
    const x = batchFirst ? site.transpose(site.input(0), [1, 0, 2]) : site.input(0);
    const [w, r, b] = [site.input(1), site.input(2), site.inputs[3]];
    const [steps, batch] = x.shape as [number, number];
    const [directions, , hidden] = r.shape as [number, number, number];
    const direction = site.text("direction", "forward");
    if (
      !["forward", "reverse", "bidirectional"].includes(direction) ||
      directions !== (direction === "bidirectional" ? 2 : 1)
    )
      site.refuse(`its direction "${direction}" does not fit weights of ${directions} directions`);
    if (site.attribute("clip") !== undefined) site.refuse("clipping of cells is not supported");
    if (site.attribute("activation_alpha") ?? site.attribute("activation_beta"))
      site.refuse("activations with parameters of their own are not supported");
    if (site.inputs[7]) site.refuse("peepholes are not supported");
    site.ignore("hidden_size");
    if (steps > stepsMax) site.refuse(`the sequence has ${steps} steps, at most ${stepsMax} are unrolled`);
    if (site.known(4, "lengths of sequences")?.some((length) => length !== steps))
      site.refuse("sequences of different lengths are not supported: leave sequence_lens out");
    const cell = cellOf(site, kind, directions);
    const start = (index: number, at: number) => {
      const given = site.inputs[at];
      const turned = given && batchFirst ? site.transpose(given, [1, 0, 2]) : given;
      const first = ofDirection(site, turned, index) ?? site.scalar(0);
      return site.op("Expand", [first], { shape: [batch, hidden] });
    };
    const results = Array.from({ length: directions }, (_, index) => {
      const backward = direction === "reverse" || index === 1;
      const weight = ofDirection(site, w, index) as Value;
      const width = weight.shape[0] as number;
      const biases = ofDirection(site, b, index);
      const share = site.op("MatMul", [x, site.transpose(weight, [1, 0])]);
      const shares = biases ? site.add(share, site.slice(biases, 0, 0, width)) : share;
      const perStep = Array.from({ length: steps }, (_, t) =>
        site.reshape(site.slice(shares, 0, t, t + 1), [batch, width]),
      );
      const layer: Layer = {
        hidden,
        batch,
        inputs: backward ? perStep.reverse() : perStep,
        recurrent: site.transpose(ofDirection(site, r, index) as Value, [1, 0]),
        bias: biases && site.slice(biases, 0, width, 2 * width),
      };
      const { outputs, c } = cell(site, layer, start(index, 5), start(index, 6));
      return { h: outputs.at(-1) as Value, outputs: backward ? outputs.reverse() : outputs, c };
    });
    return arranged(site, results, { steps, batch, hidden, directions, batchFirst });
  };
}

/** Y [steps, directions, batch, hidden], Y_h and Y_c [directions, batch, hidden]; batch in front of all if so laid out. */
function arranged(
  site: Site,
  results: readonly { h: Value; outputs: readonly Value[]; c: Value }[],
  {
    steps,
    batch,
    hidden,
    directions,
    batchFirst,
  }: Record<"steps" | "batch" | "hidden" | "directions", number> & { batchFirst: boolean },
): Value[] {
  const join = (parts: Value[], axis: number) =>
    parts.length === 1 ? (parts[0] as Value) : site.op("Concat", parts, { axis });
  const all = Array.from({ length: steps }, (_, t) =>
    join(
      results.map(({ outputs }) => site.reshape(outputs[t] as Value, [1, 1, batch, hidden])),
      1,
    ),
  );
  const y = join(all, 0);
  const ends = [results.map(({ h }) => h), results.map(({ c }) => c)].map((list) =>
    join(
      list.map((value) => site.reshape(value, [1, batch, hidden])),
      0,
    ),
  ) as [Value, Value];
  if (!batchFirst) return [y, ...ends];
  const turned = ends.map((value) => site.transpose(value, [1, 0, 2]));
  return [site.transpose(site.reshape(y, [steps, directions, batch, hidden]), [2, 0, 1, 3]), ...turned];
}

export const recurrents: Translations = {
  RNN: recurrentLayer("RNN"),
  LSTM: recurrentLayer("LSTM"),
  GRU: recurrentLayer("GRU"),
};
