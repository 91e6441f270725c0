// Commands that show what goes on.

import { inGroup } from "../../command.ts";

export const lookCommands = inGroup("Look", [
  {
    words: "nodes",
    summary: "PNodes: hardware, load, reliability",
    load: () => import("../fleet/nodes.ts"),
  },
  {
    words: "credits",
    summary: "who has earned what for work: one owner's balance, or the leaderboard",
    load: () => import("../credits/credits.ts"),
  },
  {
    words: "credits export",
    summary: "the ledger as a file that anybody can verify, or as a table",
    load: () => import("../credits/credits-export.ts"),
  },
  {
    words: "credits verify",
    summary: "check an exported ledger or statement, offline",
    load: () => import("../credits/credits-verify.ts"),
  },
  {
    words: "members",
    summary: "everybody that members know by gossip",
    load: () => import("../fleet/members.ts"),
  },
  {
    words: "vnodes",
    summary: "VNodes: where each is, its step, why it waits",
    load: () => import("../fleet/vnodes.ts"),
  },
  {
    words: "status",
    summary: "the network at a glance, and why anything waits",
    load: () => import("../status.ts"),
  },
  {
    words: "report",
    summary: "uptime, failures and what they cost; what one more machine would give",
    load: () => import("../jobs/report.ts"),
  },
  { words: "events", summary: "what happened", load: () => import("../events.ts") },
  {
    words: "top",
    summary: "a live view of nodes, sessions and rates",
    load: () => import("../top.ts"),
  },
]);
