// Several adapters of one base side by side in one network: answers name the one that they use, and share passes, base weights and caches' memory.
// What an adapter counts is multiplied into its second matrix, and narrower ones are filled up with zeros.

import { fail } from "../../core/errors.ts";
import { float32, type Tensor } from "../../core/tensor.ts";
import { type Adapter, adaptersOf, withBank, withoutAdapters } from "../../network/adapters.ts";
import { adapterNames } from "../../network/catalogue/adapter.ts";
import { compileText } from "../../network/compile.ts";
import type { Plan } from "../../network/plan.ts";
import type { Loadable } from "./merge.ts";

/** As many as a definition takes. */
const adaptersMax = 64;

export interface NamedAdapter extends Loadable {
  readonly name: string;
}

interface Opened {
  readonly source: NamedAdapter;
  /** By the matrix that it stands beside. */
  readonly byWeight: ReadonlyMap<string, Adapter>;
  readonly plan: Plan;
}

/** Adapter i of the list has number i + 1. Fails for one that was made for another base. */
export async function joined(base: Loadable, adapters: readonly NamedAdapter[]): Promise<Loadable> {
  if (adapters.length === 0 || adapters.length > adaptersMax)
    fail("invalid_argument", `${adapters.length} adapters were named: 1 to ${adaptersMax} can be joined`);
  const plain = withoutAdapters(base.definition);
  const opened = adapters.map((source) => open(source));
  for (const one of opened) await checkBase(plain, base, one);
  const ranks = new Map<string, number>();
  for (const { byWeight, plan } of opened)
    for (const { node, a } of byWeight.values())
      ranks.set(node, Math.max(ranks.get(node) ?? 0, shapeIn(plan, a)[1] as number));
  const definition = withBank(plain, adapters.length, ranks);
  const shapes = shapesOf(compileText(definition));
  return {
    definition,
    async load(parameter) {
      const which = [adapterNames.a, adapterNames.b].find((name) => parameter.endsWith(name));
      const shape = shapes.get(parameter);
      if (which === undefined || shape?.length !== 3) return base.load(parameter);
      const weight = `${parameter.slice(0, -which.length)}weight`;
      const bank = float32(shape, new Float32Array(shape.reduce((product, size) => product * size, 1)));
      for (const [index, { source, byWeight }] of opened.entries()) {
        const own = byWeight.get(weight);
        if (own === undefined) continue;
        const isFirst = which === adapterNames.a;
        put(bank, index + 1, await source.load(isFirst ? own.a : own.b), isFirst ? 1 : own.scale);
      }
      return bank;
    },
  };
}

function open(source: NamedAdapter): Opened {
  const plan = compileText(source.definition);
  const found = adaptersOf(plan);
  if (found.length === 0) fail("failed_precondition", `${source.name} has no adapters: serve it by itself`);
  return { source, plan, byWeight: new Map(found.map((one) => [one.weight, one])) };
}

/** The same layers, and in each of them the same weights. */
async function checkBase(plain: string, base: Loadable, { source, plan }: Opened): Promise<void> {
  const own = compileText(plain);
  const same = new Set(own.vnodes.flatMap(({ parameters }) => parameters.map(({ name }) => name)));
  const theirs = plan.vnodes.flatMap(({ parameters }) => parameters).filter(({ adapter }) => !adapter);
  if (theirs.length !== same.size || theirs.some(({ name }) => !same.has(name)))
    fail("failed_precondition", `${source.name} was made for another network than the base that was named`);
  for (const { name } of theirs) {
    const [one, other] = [await base.load(name), await source.load(name)];
    if (!isSame(one, other))
      fail("failed_precondition", `${source.name} was made for other weights than the base's: ${name} differs`);
  }
}

function isSame({ data: one }: Tensor, { data: other }: Tensor): boolean {
  return one.length === other.length && one.every((value, i) => Object.is(value, other[i]));
}

function shapesOf(plan: Plan): Map<string, readonly number[]> {
  return new Map(plan.vnodes.flatMap(({ parameters }) => parameters.map(({ name, shape }) => [name, shape])));
}

function shapeIn(plan: Plan, parameter: string): readonly number[] {
  return shapesOf(plan).get(parameter) ?? fail("internal", `there is no parameter ${parameter}`);
}

/** Into the upper left corner of one of the bank's matrices. */
function put({ shape, data }: Tensor, index: number, matrix: Tensor, scale: number): void {
  const [, rows, columns] = shape as [number, number, number];
  const [ownRows, ownColumns] = matrix.shape as [number, number];
  for (let row = 0; row < ownRows; row++)
    for (let column = 0; column < ownColumns; column++)
      data[(index * rows + row) * columns + column] = scale * (matrix.data[row * ownColumns + column] as number);
}
