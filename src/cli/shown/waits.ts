// What waits, as the orchestrator says it: one sentence for each root, and below it what a person can do.

import type { Wait } from "../../protocol/gen/dcnr/v1/session_pb.ts";
import { plain } from "./output.ts";

type Shown = Pick<Wait, "sentence" | "remedy">;

export function waitLines(waits: readonly Shown[]): string[] {
  return waits.flatMap(({ sentence, remedy }) => [
    `waits: ${plain(sentence)}`,
    ...(remedy ? [`       ${plain(remedy)}`] : []),
  ]);
}
