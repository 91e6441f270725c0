// Passes through the VNodes of one machine that follow each other: one call to the worker, whatever their number.

import { fail } from "../../core/errors.ts";
import type { Tensor } from "../../core/tensor.ts";
import type { StageExecutor, StageFeed } from "../../engine/engine.ts";
import type { StageEntry } from "../../engine/stage/stage-pass.ts";
import { hiddenOutput, logitsOutput } from "../../graph/unit.ts";
import type { PlanEdge } from "../../network/plan.ts";
import type { VNodeGeneration } from "./generation.ts";

export interface ChainRow extends StageEntry {
  /** Of how many of its last tokens logits are wanted. */
  readonly logits: number;
  /** Of how many of its last tokens hidden states are wanted; absent: of none. */
  readonly hidden?: number;
}

export interface Chain {
  /** By VNode, in the order in which values flow. */
  readonly links: ReadonlyMap<string, VNodeGeneration>;
  /** Between VNodes of the chain, and from them to others. */
  readonly inner: readonly PlanEdge[];
  readonly leaving: readonly PlanEdge[];
  /** The VNode whose logits are wanted, if it is in the chain. */
  readonly head: string | undefined;
  /** Ports that take the first VNode's inputs too, where a whole network is one chain. */
  readonly beside?: readonly { readonly vnode: string; readonly port: string }[];
}

export interface ChainResults {
  /** In the order of `leaving`. */
  readonly leaving: readonly Tensor[];
  /** By name: logits, and what else the head gives. */
  readonly outputs: Readonly<Record<string, Tensor>>;
}

/** `inputs` are of the chain's first VNode, by port. */
export async function runChain(
  stage: StageExecutor,
  { links, inner, leaving, head, beside = [] }: Chain,
  rows: readonly ChainRow[],
  inputs: Readonly<Record<string, Tensor>>,
  context: number,
): Promise<ChainResults> {
  for (const { position, tokens } of rows)
    if (position + tokens > context)
      fail("out_of_range", `position ${position + tokens} is beyond the context of ${context}`);
  const unitOf = (vnode: string) => (links.get(vnode) as VNodeGeneration).name;
  const [first] = links.keys();
  const feeds: StageFeed[] = Object.entries(inputs).map(([input, { data }]) => ({
    ...{ unit: unitOf(first as string), input, data: data as Float32Array },
  }));
  for (const { vnode, port } of beside) feeds.push({ ...(feeds[0] as StageFeed), unit: unitOf(vnode), input: port });
  const edges = inner.map(({ from, fromPort, to, toPort, wire }) => ({
    ...{ from: unitOf(from), output: fromPort, to: unitOf(to), input: toPort, wire },
  }));
  const hidden = lastRows(rows, (row) => row.hidden ?? 0);
  const given = head === undefined ? [] : (links.get(head) as VNodeGeneration).unit.outputs.map(({ name }) => name);
  const told = given.filter((name) => name !== hiddenOutput || hidden.length > 0);
  const wanted = [
    ...leaving.map(({ from, fromPort }) => ({ unit: unitOf(from), output: fromPort })),
    ...told.map((output) => ({ unit: unitOf(head as string), output })),
  ];
  const units = [...links.values()].map(({ name }) => name);
  const entries = rows.map(({ logits: _, hidden: __, ...entry }) => entry);
  const selected = lastRows(rows, ({ logits }) => logits);
  const results = await stage.run({ units, edges, wanted, entries, selected, hidden }, feeds);
  return {
    leaving: results.slice(0, leaving.length),
    outputs: Object.fromEntries(told.map((name, i) => [name, results[leaving.length + i] as Tensor])),
  };
}

/** What a conductor reads of the head's outputs. */
export function headOutputs(outputs: Readonly<Record<string, Tensor>>) {
  return { logits: outputs[logitsOutput], hidden: outputs[hiddenOutput] };
}

/** Numbers of so many of the last rows of each request. */
function lastRows(rows: readonly ChainRow[], countOf: (row: ChainRow) => number): number[] {
  const numbers: number[] = [];
  let end = 0;
  for (const row of rows) {
    end += row.tokens;
    for (let number = end - countOf(row); number < end; number++) numbers.push(number);
  }
  return numbers;
}
