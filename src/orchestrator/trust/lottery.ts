// Who is checked, drawn when the line moves. The seed is a signature that can be made in one way only, over everything that
// was stated: whoever states could not know it, orchestrators cannot choose it, and anybody can verify it afterwards.

import { sha256 } from "../../core/hash.ts";
import type { PNodeId, VNodeId } from "../../core/ids.ts";
import type { Assurance } from "../../network/settings/session.ts";
import { watchIntervals } from "./standing.ts";

/** Makes the one signature of a text. */
export interface Lottery {
  /** Base64. */
  draw(content: Uint8Array): Promise<string>;
  /** PEM, for whoever verifies draws. */
  readonly publicKey: string;
}

export interface DrawnLine {
  readonly session: string;
  readonly turn: number;
  readonly from: number;
  readonly to: number;
  /** SHA-256 of all statements about the interval. */
  readonly statements: string;
}

export function drawContent({ session, turn, from, to, statements }: DrawnLine): Uint8Array {
  return new TextEncoder().encode(["dcnr draw 1", session, turn, from, to, statements].join("|"));
}

/** What an answer is drawn by: whoever gave it could not know. */
export function answerDrawContent(replica: string, prompt: readonly number[], answer: readonly number[]): Uint8Array {
  const content = sha256([prompt.join(), answer.join()].join("|"));
  return new TextEncoder().encode(["dcnr answer 1", replica, content].join("|"));
}

/** A number from 0 to below 1 that follows from the draw. */
export function lot(draw: string, ...names: readonly string[]): number {
  return Number.parseInt(sha256([draw, ...names].join("\n")).slice(0, 13), 16) / 2 ** 52;
}

/** The end of a session is known to all: its last intervals are checked whole. A short session has fewer of them. */
export function intervalsAtEnd(total: number): number {
  return Math.min(watchIntervals, Math.ceil(total / 10));
}

export function isDrawn(
  draw: string,
  vnode: VNodeId,
  rate: number,
  assurance: Assurance,
  leftAfter: number,
  total: number,
) {
  if (assurance === "checked" || assurance === "proven" || leftAfter < intervalsAtEnd(total)) return true;
  return lot(draw, vnode) < rate;
}

/** Share of what strangers have checked that somebody who is trusted checks again: a liar's friends call its results right. */
export const againShare = 0.1;

export function isDrawnAgain(draw: string, vnode: VNodeId): boolean {
  return lot(draw, vnode, "again") < againShare;
}

/** In an order that nobody chose. */
export function byLot<T extends { readonly pnode: PNodeId }>(
  draw: string,
  subject: string,
  candidates: readonly T[],
): T[] {
  return candidates
    .map((candidate) => ({ candidate, at: lot(draw, subject, candidate.pnode) }))
    .sort((a, b) => a.at - b.at)
    .map(({ candidate }) => candidate);
}

/** For worlds without a key: unchangeable and repeatable, but no secret from whoever states. */
export const hashLottery: Lottery = {
  draw: async (content) => sha256(content),
  publicKey: "",
};
