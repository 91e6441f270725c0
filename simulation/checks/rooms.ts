// Room on PNodes, as the store's writes tell it: nobody claims more than is lent, every owner stands on a claim, and
// what owners need together is lent, so that no PNode refuses anything. Counted by hand from the records, with nothing of
// the scheduler's own.

import type { PNodeRecord, RoomRecord } from "../../src/orchestrator/records/machines.ts";
import type { VNodeRecord } from "../../src/orchestrator/records/vnodes.ts";
import type { AcceptedWrite } from "../world/store.ts";

/** What a PNode keeps for itself. */
const reserveBytes = 128 * 2 ** 20;

export class RoomChecker {
  readonly #wrong: (atMs: number, message: string) => void;
  readonly #pnodes = new Map<string, PNodeRecord>();
  readonly #rooms = new Map<string, RoomRecord>();
  readonly #vnodes = new Map<string, VNodeRecord>();
  readonly #refusals = new Set<string>();
  /** The most that was ever claimed of a PNode, as a share of what it lends. */
  mostShare = 0;

  constructor(wrong: (atMs: number, message: string) => void) {
    this.#wrong = wrong;
  }

  wrote({ atMs, key, after }: AcceptedWrite): void {
    const record: unknown = after === undefined ? undefined : JSON.parse(after);
    if (key.startsWith("pnode/")) keep(this.#pnodes, key.slice("pnode/".length), record as PNodeRecord | undefined);
    if (key.startsWith("room/")) {
      keep(this.#rooms, key.slice("room/".length), record as RoomRecord | undefined);
      if (record) this.#checkClaims(atMs, record as RoomRecord);
    }
    if (key.startsWith("vnode/")) {
      keep(this.#vnodes, key, record as VNodeRecord | undefined);
      if (record) this.#checkMembers(atMs, key, record as VNodeRecord);
      if (record) this.#checkRefusals(atMs, key, record as VNodeRecord);
    }
  }

  /** Claims that are left: in the end there should be none. */
  claims(): string[] {
    return Array.from(this.#rooms.values()).flatMap(({ claims }) => Object.keys(claims));
  }

  #checkClaims(atMs: number, { pnode, life, claims }: RoomRecord): void {
    const record = this.#pnodes.get(pnode);
    if (record?.life !== life) return;
    const claimed = Object.values(claims).reduce((sum, { memoryBytes }) => sum + memoryBytes, 0);
    this.mostShare = Math.max(this.mostShare, claimed / lent(record));
    if (claimed > lent(record)) this.#wrong(atMs, `${claimed} bytes of ${pnode} are claimed, ${lent(record)} are lent`);
  }

  /** Room is claimed before anybody is assigned anything: a PNode that refuses counts otherwise than the records do. */
  #checkRefusals(atMs: number, key: string, { failures }: VNodeRecord): void {
    for (const { pnode, detail, refusedWallMs, isLapse } of failures) {
      const refusal = `${key} ${pnode} ${refusedWallMs}`;
      if (refusedWallMs === undefined || isLapse || this.#refusals.has(refusal)) continue;
      this.#refusals.add(refusal);
      this.#wrong(atMs, `${pnode} has no room for ${key}, though it was claimed: ${detail}`);
    }
  }

  #checkMembers(atMs: number, key: string, record: VNodeRecord): void {
    for (const { pnode, life, claim } of record.members) {
      const host = this.#pnodes.get(pnode);
      // One that was restarted is an owner no longer, whatever is still written.
      if (host?.life !== life) continue;
      if (!this.#rooms.get(pnode)?.claims[claim]) this.#wrong(atMs, `${key}: its owner ${pnode} has claimed no room`);
      let used = 0;
      for (const other of this.#vnodes.values())
        if (other.members.some((member) => member.pnode === pnode && member.life === life)) used += other.memoryBytes;
      if (used > lent(host)) this.#wrong(atMs, `${pnode} hosts VNodes of ${used} bytes and lends ${lent(host)}`);
    }
  }
}

function lent({ facts, limits }: PNodeRecord): number {
  return (limits.memoryBytes || facts.memoryBytes) - reserveBytes;
}

function keep<V>(map: Map<string, V>, key: string, value: V | undefined): void {
  if (value === undefined) map.delete(key);
  else map.set(key, value);
}
