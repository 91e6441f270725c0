// What a process holds of the machine's memory, by what it is: pages that others share count by their share (PSS).

import { readFileSync } from "node:fs";

/** In MB. */
export type MemoryKinds = ReadonlyMap<string, number>;

/** The C library's heaps lie at whole 64 MB, one or more for each thread; the first thread's is called [heap]. */
const arenaBytes = 64 << 20;

export function memoryKinds(pid: number): MemoryKinds {
  const kinds = new Map<string, number>();
  let kind = "";
  for (const line of readFileSync(`/proc/${pid}/smaps`, "utf8").split("\n")) {
    const area = /^([0-9a-f]+)-[0-9a-f]+ \S+ \S+ \S+ \d+\s*(.*)$/.exec(line);
    if (area) kind = kindOf(area[2] as string, Number.parseInt(area[1] as string, 16));
    const pss = /^Pss:\s+(\d+)/.exec(line)?.[1];
    if (pss !== undefined) kinds.set(kind, (kinds.get(kind) ?? 0) + Number(pss) / 1024);
  }
  return kinds;
}

function kindOf(name: string, start: number): string {
  if (name === "[heap]") return "heap of the first thread";
  if (name.includes("onnxruntime")) return "the runtime's library";
  if (name.includes("(deleted)")) return "weights in files that are mapped";
  if (name.startsWith("/")) return "program and other libraries";
  return start % arenaBytes === 0 ? "heaps of other threads" : "JavaScript, shared memory, large blocks";
}

export function totalMb(kinds: MemoryKinds): number {
  return [...kinds.values()].reduce((sum, mb) => sum + mb, 0);
}

/** What grew, largest first; what is less than a megabyte is left out. */
export function grown(before: MemoryKinds, after: MemoryKinds): string {
  return Array.from(after, ([kind, mb]) => [kind, mb - (before.get(kind) ?? 0)] as const)
    .filter(([, mb]) => Math.abs(mb) >= 1)
    .toSorted((a, b) => b[1] - a[1])
    .map(([kind, mb]) => `${kind} ${mb.toFixed(0)}`)
    .join(", ");
}
