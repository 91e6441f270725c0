// One VNode's unit (graph/unit.ts) in the worker that runs it: its graphs with their weights, its attentions with their
// caches. A pass brings rows of several requests; what a row becomes depends on its own request alone.

import { assert } from "../../core/assert.ts";
import { elementCount, type Shape, type Tensor, tensorBytes } from "../../core/tensor.ts";
import type { ValueInfo } from "../../graph/model.ts";
import { anyRows, shapeFor } from "../../graph/rows.ts";
import {
  adaptersInput,
  hiddenOutput,
  logitsOutput,
  positionsInput,
  type RowPart,
  type UnitAttention,
  type UnitGraph,
  type UnitPlan,
  type UnitRows,
} from "../../graph/unit.ts";
import type { Engine, Tensors } from "../engine.ts";
import { type Attend, type AttendCall, cachePageBytes, compileAttention, pagePositions } from "./attention.ts";
import { Pages } from "./pages.ts";
import type { Frame, Room } from "./room.ts";
import { bucketOf, inputsBeside, type RowProgram, rowProgramOf } from "./row-program.ts";
import type { StageEntry, StageRows } from "./stage-pass.ts";
import { type Lookup, type OpenTable, withoutTables } from "./tables.ts";

/** Rows for which values have room at least, so that programs may fill up. */
const capacityMin = 8;

/** Rows of a value in the room; there is space for `capacity`. */
export interface RowValue {
  readonly info: ValueInfo;
  readonly place: number;
  readonly rows: number;
}

type LoadedStep =
  | { readonly kind: "lookup"; readonly lookup: Lookup }
  | {
      readonly kind: "graph";
      readonly step: UnitGraph;
      /** Without weights. */
      readonly inputs: readonly string[];
      readonly program: RowProgram;
    }
  | { readonly kind: "attend"; readonly step: UnitAttention; readonly attend: Attend; readonly tables: Tables };

/** Addresses of what an attention reads beside its rows; 0 where it needs none. */
type Tables = Pick<AttendCall, "bias" | "cos" | "sin">;

export class Unit {
  readonly plan: UnitPlan;
  readonly pages: Pages;
  readonly #room: Room;
  readonly #steps: readonly LoadedStep[];

  private constructor(plan: UnitPlan, room: Room, pages: Pages, steps: readonly LoadedStep[]) {
    this.plan = plan;
    this.pages = pages;
    this.#room = room;
    this.#steps = steps;
  }

  /** `openTable`: where tables may lie outside of memory. */
  static async load(
    engine: Engine,
    plan: UnitPlan,
    weights: Tensors,
    room: Room,
    openTable?: OpenTable,
  ): Promise<Unit> {
    const steps: LoadedStep[] = [];
    let pageBytes = 0;
    for (const given of plan.steps) {
      if (given.kind === "graph") {
        const { step, lookups } = withoutTables(given, weights, openTable);
        for (const lookup of lookups) steps.push({ kind: "lookup", lookup });
        if (step.graph.nodes.length === 0) continue;
        const own = Object.fromEntries(step.weights.map((name) => [name, weights[name] as Tensor]));
        const program = (await engine.loadRows?.(step.graph, own)) ?? rowProgramOf(engine, step.graph, own);
        const inputs = inputsBeside(step.graph, own).map(({ name }) => name);
        steps.push({ kind: "graph", step, inputs, program });
      } else {
        const step = given;
        const attend = compileAttention(step, pageBytes, room.memory);
        const [bias, cos, sin] = [step.bias, step.rope?.cos, step.rope?.sin].map((table) =>
          table === undefined ? 0 : room.keep(table, `the positions of ${step.node}`),
        ) as [number, number, number];
        pageBytes += cachePageBytes(step);
        steps.push({ kind: "attend", step, attend, tables: { bias, cos, sin } });
      }
    }
    return new Unit(plan, room, new Pages(room, pageBytes), steps);
  }

  get keepsWeights(): boolean {
    return this.#steps.some((step) => step.kind === "graph" && step.program.keepsWeights);
  }

  /** Outputs by name; they lie in the frame. Logits and hidden states have the rows that were asked for. */
  async run(pass: StageRows, given: ReadonlyMap<string, RowValue>, frame: Frame): Promise<Map<string, RowValue>> {
    const run = new UnitRun(this.#room, frame, pass, given);
    const tables = new Map<StageEntry, readonly number[]>();
    for (const entry of pass.entries) {
      if (entry.shared) this.pages.share(entry.request, entry.shared.request, entry.shared.positions);
      tables.set(entry, this.pages.extend(entry.request, entry.position, entry.tokens));
    }
    for (const loaded of this.#steps)
      if (loaded.kind === "lookup") run.lookUp(loaded.lookup);
      else if (loaded.kind === "graph") {
        const running = run.graph(loaded.step, loaded.inputs, loaded.program);
        if (running !== undefined) await running;
      } else run.attend(loaded.step, loaded.attend, loaded.tables, tables);
    return run.outputs(this.plan.outputs);
  }

  async release(): Promise<void> {
    this.pages.clear();
    for (const step of this.#steps)
      if (step.kind === "graph") await step.program.release();
      else if (step.kind === "lookup") step.lookup.table.close();
      else for (const place of Object.values(step.tables)) if (place !== 0) this.#room.letGo(place);
  }
}

/** The values of one pass. */
class UnitRun {
  readonly #room: Room;
  readonly #frame: Frame;
  readonly #pass: StageRows;
  readonly #values: Map<string, RowValue>;
  /** Of the rows that were asked for, by what of them. */
  readonly #picked = { logits: new Map<string, RowValue>(), hidden: new Map<string, RowValue>() };

  constructor(room: Room, frame: Frame, pass: StageRows, given: ReadonlyMap<string, RowValue>) {
    this.#room = room;
    this.#frame = frame;
    this.#pass = pass;
    this.#values = new Map(given);
  }

  lookUp({ ids, result, table }: Lookup): void {
    const rows = rowsOf(this.#pass);
    const value = this.#define(this.#values, result, rows);
    const numbers = this.#tensor(this.#value(ids), rows).data as Int32Array;
    const found = this.#tensor(value, rows).data as Float32Array;
    const width = found.length / rows;
    for (const [row, number] of numbers.entries()) table.row(number, found.subarray(row * width, (row + 1) * width));
  }

  graph({ graph, rows: which }: UnitGraph, inputs: readonly string[], program: RowProgram): Promise<void> | undefined {
    const rows = which === "all" ? rowsOf(this.#pass) : this.#rowsPicked(which).length;
    const values = which === "all" ? this.#values : this.#picked[which];
    const outputs = graph.outputs.map((info) => this.#define(values, info, rows));
    if (rows === 0) return undefined;
    const padded = program.padded(rows);
    const feeds = inputs.map((name) =>
      this.#tensor(which === "all" ? this.#value(name) : this.#pick(which, name), padded),
    );
    const into = outputs.map((value) => this.#tensor(value, padded));
    return program.run(feeds, into, padded);
  }

  attend(step: UnitAttention, attend: Attend, given: Tables, tables: ReadonlyMap<StageEntry, readonly number[]>): void {
    const { heads, headDim } = step;
    const info = { name: step.result, dtype: "float32" as const, shape: [anyRows, 1, heads * headDim] };
    const result = this.#define(this.#values, info, rowsOf(this.#pass));
    let row = 0;
    for (const entry of this.#pass.entries) {
      const pages = tables.get(entry) as readonly number[];
      const table = this.#frame.take(4 * pages.length);
      this.#room.bytes(table, 4 * pages.length).set(new Uint8Array(Int32Array.from(pages).buffer));
      const at = ({ of, offset, stride }: RowPart) => this.#value(of).place + 4 * (row * stride + offset);
      attend({
        ...{ query: at(step.query), key: at(step.key), value: at(step.value) },
        result: result.place + 4 * row * heads * headDim,
        rows: entry.tokens,
        position: entry.position,
        pages: table,
        scores: this.#frame.take(4 * pages.length * pagePositions),
        ...given,
      });
      row += entry.tokens;
    }
  }

  outputs(infos: readonly ValueInfo[]): Map<string, RowValue> {
    return new Map(
      infos.map(({ name }) => {
        if (name === logitsOutput) return [name, this.#pick("logits", name)];
        return [name, name === hiddenOutput ? this.#pick("hidden", name) : this.#value(name)];
      }),
    );
  }

  #value(name: string): RowValue {
    const known = this.#values.get(name);
    if (known !== undefined) return known;
    assert(name === positionsInput || name === adaptersInput, `${name} is computed before it is used`);
    const numbers = this.#pass.entries.flatMap(({ position, tokens, adapter = 0 }) =>
      Array.from({ length: tokens }, (_, i) => (name === positionsInput ? position + i : adapter)),
    );
    const info = { name, dtype: "int32" as const, shape: shapeOfPositions };
    const value = defineRows(this.#frame, info, numbers.length);
    fillRows(this.#room, value, Int32Array.from(numbers));
    this.#values.set(name, value);
    return value;
  }

  #rowsPicked(which: Exclude<UnitRows, "all">): readonly number[] {
    return which === "logits" ? this.#pass.selected : this.#pass.hidden;
  }

  /** The rows of a value that are asked for. */
  #pick(which: Exclude<UnitRows, "all">, name: string): RowValue {
    const known = this.#picked[which].get(name);
    if (known !== undefined) return known;
    const from = this.#value(name);
    const picked = this.#rowsPicked(which);
    const value = this.#define(this.#picked[which], from.info, picked.length);
    const bytes = rowBytes(from.info);
    const [source, target] = [from, value].map(({ place, rows }) => this.#room.bytes(place, rows * bytes));
    for (const [to, row] of picked.entries())
      target?.set((source as Uint8Array).subarray(row * bytes, (row + 1) * bytes), to * bytes);
    return value;
  }

  #define(values: Map<string, RowValue>, info: ValueInfo, rows: number): RowValue {
    const value = defineRows(this.#frame, info, rows);
    values.set(info.name, value);
    return value;
  }

  #tensor({ info, place }: RowValue, rows: number): Tensor {
    return this.#room.rowsView(place, info, rows);
  }
}

const shapeOfPositions: Shape = [anyRows, 1];

export function rowsOf({ entries }: StageRows): number {
  return entries.reduce((sum, { tokens }) => sum + tokens, 0);
}

export function rowBytes({ dtype, shape }: ValueInfo): number {
  return tensorBytes(dtype, shapeFor(shape, 1));
}

/** Space for so many rows and some more. */
export function defineRows(frame: Frame, info: ValueInfo, rows: number): RowValue {
  const capacity = Math.max(capacityMin, bucketOf(rows));
  return { info, place: frame.take(capacity * rowBytes(info)), rows };
}

/** Rows beyond the last are zeros: numbers of tokens and positions must exist. */
export function fillRows(room: Room, { info, place, rows }: RowValue, data: Int32Array | Float32Array): void {
  const capacity = Math.max(capacityMin, bucketOf(rows));
  const tensor = room.view(place, info.dtype, shapeFor(info.shape, capacity));
  const target = tensor.data as Float32Array;
  target.set(data);
  if (info.dtype === "int32") target.fill(0, elementCount(shapeFor(info.shape, rows)));
}
