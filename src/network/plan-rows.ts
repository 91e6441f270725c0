// A plan as plain data on its way between threads: rows, so that a large one can be read a few hundred at a time. Node types
// travel by name, since they are code.

import { assert } from "../core/assert.ts";
import type { BodyNode } from "./body.ts";
import { Config } from "./catalogue/config.ts";
import { nodeTypeOf } from "./catalogue/registry.ts";
import type { Plan, VNodePlan } from "./plan.ts";

/** An item of a list of a VNode, or of the plan itself. The row without a list has everything that is no list. */
export type PlanRow = readonly [vnode: number, list: string, item: unknown];

const wholePlan = -1;
/** Reading that many takes a few milliseconds. */
const rowsAtOnce = 512;

interface PackedNode extends Omit<BodyNode, "nodeType" | "config"> {
  readonly nodeType: string;
  readonly config: ReturnType<Config["entries"]>;
}

export function* planRows(plan: Plan): Iterable<PlanRow[]> {
  let rows: PlanRow[] = [];
  for (const row of allRows(plan)) {
    rows.push(row);
    if (rows.length < rowsAtOnce) continue;
    yield rows;
    rows = [];
  }
  yield rows;
}

function* allRows({ vnodes, ...whole }: Plan): Iterable<PlanRow> {
  yield* rowsOf(wholePlan, whole);
  for (const [index, vnode] of vnodes.entries()) yield* rowsOf(index, { ...vnode, body: vnode.body.map(packed) });
}

function* rowsOf(index: number, value: object): Iterable<PlanRow> {
  const entries = Object.entries(value);
  yield [index, "", Object.fromEntries(entries.map(([name, part]) => [name, Array.isArray(part) ? [] : part]))];
  for (const [name, part] of entries)
    if (Array.isArray(part)) for (const item of part as readonly unknown[]) yield [index, name, item];
}

export function planFromRows(pieces: Iterable<readonly PlanRow[]>): Plan {
  const vnodes: VNodePlan[] = [];
  let whole: object = {};
  for (const rows of pieces)
    for (const [index, name, item] of rows) {
      if (name !== "") {
        const list = (index === wholePlan ? whole : vnodes[index])?.[name as never] as unknown[] | undefined;
        assert(list !== undefined, "a plan's row comes after the row that begins its list");
        list.push(name === "body" ? unpacked(item as PackedNode) : item);
      } else if (index === wholePlan) whole = item as object;
      else vnodes[index] = item as VNodePlan;
    }
  return { ...whole, vnodes } as unknown as Plan;
}

function packed(node: BodyNode): PackedNode {
  return { ...node, nodeType: node.nodeType.type, config: node.config.entries() };
}

function unpacked(node: PackedNode): BodyNode {
  const config = new Config(...node.config);
  return { ...node, nodeType: nodeTypeOf(node.id, node.nodeType), config };
}
