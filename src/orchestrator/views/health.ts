// How this orchestrator is, in sentences: what does not work, since when, and what goes on regardless. What sessions wait
// for is told elsewhere (waits.ts), once.

import type { Context } from "../context.ts";
import { prefix } from "../records/store-keys.ts";
import { called, workloadsIn } from "../records/workloads.ts";

export function problemsOf(context: Context): string[] {
  const { mirror, world } = context;
  const problems: string[] = [];
  if (mirror.down) {
    const seconds = ((world.clock.monotonicMs() - mirror.down.sinceMs) / 1000).toFixed(1);
    problems.push(
      `the store has not answered for ${seconds} s (${mirror.down.reason}): training goes on, nothing can be re-placed`,
    );
  }
  for (const { id, status, reason } of workloadsIn(mirror)) {
    if (status === "failed") problems.push(`${called(id)} failed: ${reason}`);
  }
  for (const { model, status, reason } of mirror.under(prefix.replicas))
    if (status === "waiting") problems.push(`model ${model} waits: ${reason}`);
  const warned = mirror.under(prefix.pnodes).filter((pnode) => pnode.status === "online" && pnode.warnings.length > 0);
  for (const pnode of warned.slice(0, 20)) problems.push(`${pnode.name} ${pnode.warnings[0]}`);
  return problems;
}

/** Able to serve: the store was read once; an outage later does not make it useless. */
export function storeProblems(context: Context): string[] {
  return context.mirror.down ? problemsOf(context).slice(0, 1) : [];
}
