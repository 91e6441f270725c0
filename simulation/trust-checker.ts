// What must hold of machines' standings, however many of them lie: nobody who is honest is called a liar, and nobody is banned
// at first sight but for two contradicting signatures.

import type { StandingRecord } from "../src/orchestrator/records/checking.ts";
import type { Site } from "./boot.ts";
import { honest } from "./byzantine.ts";

export function slandered({ records, behaviours }: Pick<Site, "records" | "behaviours">): string[] {
  return records.under<StandingRecord>("standing/").flatMap(({ pnode, faults, barred }) => {
    const behaviour = behaviours.get(pnode);
    const isHonest = behaviour === undefined || honest.has(behaviour);
    const blamed = faults.filter(({ kind }) => kind === "lie" || kind === "equivocation");
    const sentences = isHonest
      ? blamed.map(({ story }) => `${pnode} (${behaviour ?? "honest"}) is blamed: ${story}`)
      : [];
    if (behaviour === undefined && barred !== undefined)
      sentences.push(`${pnode} is honest and barred: ${barred.reason}`);
    return sentences;
  });
}
