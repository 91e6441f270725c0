// Rows as a file of JSON lines, for whoever goes on with them elsewhere. The file appears whole or not at all.

import { open, rename, rm } from "node:fs/promises";
import { fail } from "../core/errors.ts";
import type { Blobs } from "./kit.ts";
import { type Output, recordsOf, shardsOfOutput } from "./records.ts";

export async function writeRows(output: Output, path: string, where: string, blobs: Blobs): Promise<void> {
  if (output.format !== "rows")
    fail("failed_precondition", `${where} makes tokens, and only rows can be written to ${path}`);
  const temporary = `${path}.new`;
  const file = await open(temporary, "w");
  try {
    for (const shard of shardsOfOutput(output)) {
      const lines: Uint8Array[] = [];
      for (const record of recordsOf(await blobs.get(shard.hash))) lines.push(record, newline);
      await file.writeFile(Buffer.concat(lines));
    }
    await file.close();
    await rename(temporary, path);
  } catch (thrown) {
    await file.close().catch(() => {});
    await rm(temporary, { force: true }).catch(() => {});
    throw thrown;
  }
}

const newline = Uint8Array.of(0x0a);
