// Words for people: PNodes by the names their owners gave them, numbers as one would write them.

import type { PNodeId } from "../core/ids.ts";
import type { Mirror } from "./mirror.ts";
import { key, type PNodeRecord } from "./records.ts";

/** Events carry the id besides, since names need not be unique. */
export function pnodeName(mirror: Pick<Mirror, "get">, id: string): string {
  return mirror.get<PNodeRecord>(key.pnode(id as PNodeId))?.name ?? id;
}

/** Three digits, and never an exponent: 0.0123, 4.56, 1,890. */
export function threeDigits(value: number): string {
  return value.toLocaleString("en", { maximumSignificantDigits: 3 });
}
