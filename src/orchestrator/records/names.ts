// PNodes by the names their owners gave them.

import type { PNodeId } from "../../core/ids.ts";
import type { Mirror } from "./mirror.ts";
import { key } from "./store-keys.ts";

/** Events carry the id besides, since names need not be unique. */
export function pnodeName(mirror: Pick<Mirror, "get">, id: string): string {
  return mirror.get(key.pnode(id as PNodeId))?.name ?? id;
}
