// How a machine that is lent is reached, in a sentence: what an orchestrator found when it called back.

import type { ReachFound } from "../../pnode/whereabouts.ts";
import { bytes } from "../shown/progress.ts";

export function reachText({ how, problem, relays }: ReachFound): string {
  if (how === "") return problem === "" ? "It is not called back yet." : `Nobody reaches it yet: ${problem}.`;
  const limits = relays.flatMap(({ relay, bytesPerSecond, slowed }) =>
    bytesPerSecond === 0
      ? []
      : [`${relay.name} carries ${bytes(bytesPerSecond)}/s at most${slowed ? ", and is full" : ""}`],
  );
  const limit = how === "directly" || limits.length === 0 ? "" : ` (${limits.join("; ")})`;
  return `It was called back: the network reaches it ${how}${limit}.`;
}
