// What waits, said once: many VNodes that wait for the same thing are one sentence.

import type { Wait } from "../protocol/gen/dcnr/v1/session_pb.ts";
import { plain } from "./output.ts";
import { duration } from "./progress.ts";

type Shown = Pick<Wait, "vnode" | "pnode" | "reason" | "sinceSeconds" | "untilSeconds">;

export function waitLines(waits: readonly Shown[], names: ReadonlyMap<string, string>): string[] {
  const byReason = Map.groupBy(waits, ({ reason }) => reason);
  return Array.from(byReason, ([reason, all]) => {
    const since = Math.max(...all.map(({ sinceSeconds }) => sinceSeconds));
    const until = Math.max(...all.map(({ untilSeconds }) => untilSeconds));
    // A wait that nobody timed is not one of "0 ms".
    const times = [since > 0 ? `for ${duration(since)}` : "", until > 0 ? `${duration(until)} left` : ""].filter(
      Boolean,
    );
    return plain(`waits: ${who(all, names)}${reason}${times.length > 0 ? ` (${times.join(", ")})` : ""}`);
  });
}

function who(waits: readonly Shown[], names: ReadonlyMap<string, string>): string {
  const vnodes = waits.filter(({ vnode }) => vnode !== "");
  const [only] = vnodes;
  if (only === undefined) return "";
  if (vnodes.length > 1) return `${vnodes.length} VNodes: `;
  return `VNode ${only.vnode}${only.pnode ? ` on PNode ${names.get(only.pnode) ?? only.pnode}` : ""}: `;
}
