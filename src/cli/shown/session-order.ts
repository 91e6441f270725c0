// Which sessions stand first: those that are under way; of those that are over the newest few, the rest is counted.

import type { Session } from "../../protocol/gen/dcnr/v1/session_pb.ts";

type Ordered = Pick<Session, "status" | "createdWallMs">;

const over = new Set(["done", "failed"]);

export function inOrder<T extends Ordered>(sessions: readonly T[], overShown: number): { shown: T[]; more: number } {
  const newest = [...sessions].sort((a, b) => Number(b.createdWallMs - a.createdWallMs));
  const ended = newest.filter(({ status }) => over.has(status));
  return {
    shown: [...newest.filter(({ status }) => !over.has(status)), ...ended.slice(0, overShown)],
    more: Math.max(0, ended.length - overShown),
  };
}
