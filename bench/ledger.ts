// Settlements per second on SQLite: one orchestrator pays line after line of sessions of 24 VNodes on 12 PNodes, each settlement
// one block that pays 24 intervals and lets 24 older ones vest; and how fast a ledger is verified.

import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { PNodeId, VNodeId } from "../src/core/ids.ts";
import { parseBlock } from "../src/orchestrator/ledger/block.ts";
import { Chain } from "../src/orchestrator/ledger/chain.ts";
import { type FinalWork, nextSettlement } from "../src/orchestrator/ledger/settle.ts";
import { ChainWriter } from "../src/orchestrator/ledger/writer.ts";
import { openStateStore } from "../src/store/open.ts";
import { realWorld } from "../src/system/world.ts";

const [lines, sessions, vnodes, pnodes, checkpointEvery] = [250, 4, 24, 12, 20];

export async function ledgerReport(_: readonly string[], log: (line: string) => void): Promise<string> {
  const world = realWorld({ logFormat: "none" });
  const folder = mkdtempSync(join(tmpdir(), "dcnr-bench-"));
  const store = await openStateStore(`sqlite:${join(folder, "state.db")}`, { world });
  try {
    const writers = Array.from({ length: sessions }, (_each, index) => new ChainWriter(store, `s${index}`, world));
    const [cpu, began] = [process.cpuUsage(), performance.now()];
    for (let line = 1; line <= lines; line++)
      for (const writer of writers) {
        const finality = { final: line * checkpointEvery, work: workOf(line), vestingSteps: 40 * checkpointEvery };
        await writer.append((chain) => nextSettlement(chain, { ...finality, ended: false }));
      }
    const seconds = (performance.now() - began) / 1000;
    const { user, system } = process.cpuUsage(cpu);
    const settled = lines * sessions;
    log(`${settled} settlements in ${seconds.toFixed(1)} s`);
    const { bytes, microseconds } = await verified(store);
    return [
      "| what | measured | target |",
      "|---|---|---|",
      `| settlements on SQLite, ${vnodes} VNodes each, one writer | ${Math.round((settled * 1e6) / (user + system))}/s of a core (${Math.round((user + system) / settled)} µs of CPU each), ${Math.round(settled / seconds)}/s by the clock | >= 200/s |`,
      `| size of a block | ${Math.round(bytes / settled)} B | |`,
      `| a block read and checked by every rule | ${Math.round(microseconds / settled)} µs of CPU | |`,
    ].join("\n");
  } finally {
    await store.close();
    rmSync(folder, { recursive: true });
  }
}

function workOf(line: number): FinalWork[] {
  const [from, to] = [(line - 1) * checkpointEvery, line * checkpointEvery];
  return Array.from({ length: vnodes }, (_, index): FinalWork => {
    const pnode = `pnode-${(index + line) % pnodes}`.padEnd(52, "x") as PNodeId;
    return { vnode: `block.${index}` as VNodeId, from, to, pnode, role: "worker", flops: 1e9 + index };
  });
}

async function verified(store: Awaited<ReturnType<typeof openStateStore>>) {
  const texts: string[] = [];
  let after: string | undefined;
  do {
    const page = await store.list("block/", after === undefined ? {} : { after });
    texts.push(...page.items.map(({ value }) => value));
    after = page.next;
  } while (after !== undefined);
  const cpu = process.cpuUsage();
  const chains = new Map<string, Chain>();
  for (const text of texts) {
    const block = parseBlock(text, "a block");
    const chain = chains.get(block.chain) ?? new Chain(block.chain);
    chains.set(block.chain, chain);
    if (chain.take(block).length > 0) throw new Error("the ledger does not hold");
  }
  const { user, system } = process.cpuUsage(cpu);
  return { bytes: texts.reduce((sum, text) => sum + text.length, 0), microseconds: user + system };
}
