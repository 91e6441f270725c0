// The units that one worker runs for a served model, and passes through several of them at once: what goes from unit to unit
// stays in the worker's memory.

import { fail } from "../../core/errors.ts";
import { fromBfloat16, fromFloat16, toBfloat16, toFloat16 } from "../../core/numbers/half.ts";
import { fromInt8, toInt8 } from "../../core/numbers/int8.ts";
import { firstNonFinite, type Tensor, viewData } from "../../core/tensor.ts";
import { quantiseUnit, type WeightBits } from "../../graph/quantise.ts";
import { shapeFor } from "../../graph/rows.ts";
import type { UnitPlan } from "../../graph/unit.ts";
import type { Engine, LoadedUnit, StageFeed, Tensors } from "../engine.ts";
import { Frame, Room } from "./room.ts";
import type { StageAnswer, StageCall } from "./stage-call.ts";
import type { StageEdge, StagePass } from "./stage-pass.ts";
import type { OpenTable } from "./tables.ts";
import { defineRows, fillRows, type RowValue, rowsOf, Unit } from "./unit.ts";

export class Stages {
  readonly #engine: Engine;
  readonly #openTable: OpenTable | undefined;
  readonly #units = new Map<string, Unit>();
  #room: Room | undefined;

  /** `openTable`: absent where there is nothing but memory. */
  constructor(engine: Engine, openTable?: OpenTable) {
    this.#engine = engine;
    this.#openTable = openTable;
  }

  async load(plan: UnitPlan, name: string, weights: Tensors, bits?: WeightBits): Promise<LoadedUnit> {
    await this.unload(name);
    this.#room ??= new Room(this.#engine.memory);
    const few = bits === undefined ? { plan, weights, error: 0 } : quantiseUnit(plan, weights, bits);
    const unit = await Unit.load(this.#engine, few.plan, few.weights, this.#room, this.#openTable);
    this.#units.set(name, unit);
    return { keepsWeights: unit.keepsWeights, weightError: few.error };
  }

  async unload(name: string): Promise<void> {
    const unit = this.#units.get(name);
    this.#units.delete(name);
    await unit?.release();
  }

  drop(name: string, requests: readonly string[] | "all"): void {
    const pages = this.#units.get(name)?.pages;
    if (requests === "all") pages?.clear();
    else for (const request of requests) pages?.drop(request);
  }

  #unit(name: string): Unit {
    return this.#units.get(name) ?? fail("unavailable", `${name} is not loaded at its worker`);
  }

  async run(pass: StagePass, feeds: readonly StageFeed[], given: readonly ArrayBuffer[] = []): Promise<Tensor[]> {
    const spare = [...given];
    for (const name of pass.units) this.#unit(name);
    const room = this.#room as Room;
    const frame = new Frame(room);
    try {
      const inputs = new Map(pass.units.map((name) => [name, new Map<string, RowValue>()]));
      for (const { unit, input, data } of feeds)
        inputs.get(unit)?.set(input, this.#given(room, frame, this.#unit(unit).plan, input, data, rowsOf(pass)));
      const outputs = new Map<string, Map<string, RowValue>>();
      for (const name of pass.units) {
        const results = await this.#unit(name).run(pass, inputs.get(name) as Map<string, RowValue>, frame);
        outputs.set(name, results);
        for (const edge of pass.edges)
          if (edge.from === name) inputs.get(edge.to)?.set(edge.input, this.#handedOn(room, edge, results));
      }
      return pass.wanted.map(({ unit, output }) => {
        const value = outputs.get(unit)?.get(output) ?? fail("internal", `unit ${unit} has no output ${output}`);
        return copied(viewOf(room, value), spare, `output "${output}" of ${unit}`);
      });
    } finally {
      frame.close();
    }
  }

  #given(room: Room, frame: Frame, plan: UnitPlan, input: string, data: StageFeed["data"], rows: number): RowValue {
    const info = plan.inputs.find(({ name }) => name === input);
    if (info === undefined) fail("invalid_argument", `unit ${plan.name} has no input ${input}`);
    const value = defineRows(frame, info, rows);
    fillRows(room, value, data);
    return value;
  }

  #handedOn(room: Room, { output, wire }: StageEdge, results: ReadonlyMap<string, RowValue>): RowValue {
    const value = results.get(output) ?? fail("internal", `a unit has no output ${output}`);
    round(viewOf(room, value), wire);
    return value;
  }

  async answer(call: StageCall): Promise<StageAnswer> {
    switch (call.kind) {
      case "load":
        return { loaded: await this.load(call.plan, call.name, call.weights, call.bits) };
      case "unload":
        await this.unload(call.name);
        return {};
      case "drop":
        this.drop(call.name, call.requests);
        return {};
      case "run":
        return { tensors: await this.run(call.pass, call.feeds, call.spare) };
    }
  }

  async close(): Promise<void> {
    for (const name of [...this.#units.keys()]) await this.unload(name);
  }
}

function round({ data, shape }: Tensor, wire: StageEdge["wire"]): void {
  const floats = data as Float32Array;
  if (wire === "float16") floats.set(fromFloat16(toFloat16(floats)));
  if (wire === "bfloat16") floats.set(fromBfloat16(toBfloat16(floats)));
  if (wire === "int8") floats.set(fromInt8(toInt8(floats, shape), shape));
}

function viewOf(room: Room, { info, place, rows }: RowValue): Tensor {
  return room.view(place, info.dtype, shapeFor(info.shape, rows));
}

function copied({ dtype, shape, data }: Tensor, spare: ArrayBuffer[], what: string): Tensor {
  const large = spare.findIndex(({ byteLength }) => byteLength >= data.byteLength);
  const [buffer = new ArrayBuffer(data.byteLength)] = large < 0 ? [] : spare.splice(large, 1);
  const copy = viewData(dtype, new Uint8Array(buffer, 0, data.byteLength)) as Float32Array;
  copy.set(data as Float32Array);
  const at = firstNonFinite(copy);
  if (at >= 0) fail("out_of_range", `${what} has ${copy[at]} at element ${at}`);
  return { dtype, shape, data: copy };
}
