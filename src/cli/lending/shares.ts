// How PNodes of one machine share its memory, whatever networks they belong to: what is lent in all is never more than there is. A pure
// function, computed by each of them for itself whenever somebody comes or goes; who writes it down is next door.

import { fail } from "../../core/errors.ts";
import { memoryBytesLeast } from "../flags/limits.ts";
import { bytes } from "../shown/progress.ts";

export interface Lender {
  readonly name: string;
  readonly pid: number;
  /** What its owner said; 0: as much as there is. */
  readonly wantsBytes: number;
  /** What its VNodes need; never taken from it. */
  readonly heldBytes: number;
  /** What it lends now, which is never less than it holds. */
  readonly lendsBytes: number;
}

export type Wanting = Pick<Lender, "wantsBytes" | "heldBytes">;

/** What it should lend: as its owner said, or an equal part of what others were not told to lend. */
export function fairBytes(
  { wantsBytes }: Pick<Lender, "wantsBytes">,
  others: readonly Lender[],
  machineBytes: number,
): number {
  if (wantsBytes > 0) return wantsBytes;
  const equals = others.filter((other) => other.wantsBytes === 0).length + 1;
  return Math.max(0, Math.floor((machineBytes - sumOf(others, "wantsBytes")) / equals));
}

/** What it lends from now on: its part, as far as others do not lend it yet. Each of them gives way likewise. */
export function lendableBytes(self: Wanting, others: readonly Lender[], machineBytes: number): number {
  const free = machineBytes - sumOf(others, "lendsBytes");
  return Math.max(self.heldBytes, Math.min(fairBytes(self, others, machineBytes), free));
}

/** Refuses what could not be lent even if everybody gave way. */
export function checkShare(self: Pick<Lender, "wantsBytes">, others: readonly Lender[], machineBytes: number): void {
  const promised = others.filter((other) => other.wantsBytes > 0);
  const leftBytes = machineBytes - sumOf(promised, "wantsBytes");
  if (self.wantsBytes > leftBytes && promised.length > 0)
    fail(
      "invalid_argument",
      `--memory ${bytes(self.wantsBytes)} is more than is left: ${lenders(promised)} of this machine's ${bytes(machineBytes)}. ${advice(leftBytes)}`,
    );
  if (!memoryEnough(fairBytes(self, others, machineBytes))) lackOf(others, machineBytes);
}

/** Less holds no VNode. */
export function memoryEnough(lent: number): boolean {
  return lent >= memoryBytesLeast;
}

export function lackOf(others: readonly Lender[], machineBytes: number): never {
  return fail(
    "failed_precondition",
    `no memory of this machine is left to lend: ${lenders(others)} of its ${bytes(machineBytes)}. Give those less with --memory, or end one`,
  );
}

/** For the screen; empty for one that has the machine for itself. */
export function sharedText(others: readonly Lender[], machineBytes: number): string {
  if (others.length === 0) return "";
  // Several names would not leave room for what is said of them.
  const who =
    others.length === 1 ? lenders(others) : `${others.length} other PNodes lend ${bytes(sumOf(others, "lendsBytes"))}`;
  return `shared: ${who} of this machine's ${bytes(machineBytes)}`;
}

function advice(leftBytes: number): string {
  return leftBytes >= memoryBytesLeast ? `Lend ${bytes(leftBytes)} or less` : "Give those less, or end one";
}

const namesMax = 3;

function lenders(others: readonly Lender[]): string {
  const named = others.slice(0, namesMax).map(({ name, pid }) => `${name} (process ${pid})`);
  const more = others.length - named.length;
  const names = more > 0 ? [...named, `${more} more`] : named;
  const last = names.pop() ?? "nobody";
  const who = names.length > 0 ? `${names.join(", ")} and ${last}` : last;
  return `${who} ${others.length === 1 ? "lends" : "lend"} ${bytes(sumOf(others, "lendsBytes"))}`;
}

function sumOf(lenders: readonly Lender[], field: "wantsBytes" | "lendsBytes"): number {
  return lenders.reduce((sum, lender) => sum + lender[field], 0);
}
