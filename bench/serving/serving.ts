// `npm run bench -- serving [decode|network|latency|pair] [large] [float32|8bit|4bit ..] [ROUNDS]`: answers beside llama.cpp, over PNodes, several at once, and memory
// (`large`: of a model of 1.8 GB); and over machines that are far from each other, in virtual time.

import { existsSync } from "node:fs";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type Compared, compareDecoding, decodeTable, fileOf, formats } from "./decode.ts";
import { llama100, llama450, writeLlama } from "./gguf.ts";
import { latencyTable } from "./latency.ts";
import { networkTable, type Served, serveOver } from "./network.ts";
import { pairTable } from "./pair.ts";

const crowds = [8, 32];
/** As many as the demo has. */
const pairSteps = 600;

export async function servingReport(args: readonly string[], log: (line: string) => void): Promise<string> {
  const rounds = Number(args.find((arg) => /^\d+$/.test(arg)) ?? 3);
  const chosen = formats.filter((format) => args.includes(format));
  const wanted = chosen.length > 0 ? chosen : formats;
  const parts = ["decode", "network", "latency", "pair"].filter((part) => args.includes(part));
  const isWanted = (part: string) => parts.length === 0 || parts.includes(part);
  // Files of 600 MB together can be kept for the next run.
  const kept = process.env["DCNR_BENCH_MODELS"];
  const folder = kept ?? (await mkdtemp(join(tmpdir(), "dcnr-llama-")));
  try {
    const tables: string[] = [];
    if (isWanted("decode")) {
      const compared: Compared[] = [];
      for (const format of wanted) compared.push(await compareDecoding(folder, format, rounds, log));
      tables.push(decodeTable(compared));
    }
    if (isWanted("network")) {
      const size = args.includes("large") ? llama450 : llama100;
      const file = fileOf(folder, "float32", size);
      if (!existsSync(file)) writeLlama(file, size, "float32");
      const found: { format: (typeof formats)[number]; served: Served[] }[] = [];
      for (const format of wanted) {
        const served: Served[] = [];
        for (const spread of [1, 2]) served.push(await serveOver(file, format, spread, rounds, crowds, log));
        found.push({ format, served });
      }
      tables.push(networkTable(found, size));
    }
    if (isWanted("latency")) tables.push(await latencyTable(log));
    if (isWanted("pair")) tables.push(await pairTable(pairSteps, log));
    return tables.join("\n\n");
  } finally {
    if (kept === undefined) await rm(folder, { recursive: true, force: true });
  }
}
