// Commands for whoever runs a network: machines, queues, providers, credits, what was found wrong.

import { inGroup } from "../../command.ts";

export const operateCommands = inGroup("Operate", [
  {
    words: "key rotate",
    summary: "replace a key by one that it signs for: yours, a machine's, the network's",
    load: () => import("../rights/key-rotate.ts"),
  },
  {
    words: "queue list",
    summary: "queues: quotas, what is used and borrowed, who waits",
    load: () => import("../jobs/queue-list.ts"),
  },
  {
    words: "queue set",
    also: ["queue create"],
    summary: "make a queue, or change its quotas",
    load: () => import("../jobs/queue-set.ts"),
  },
  {
    words: "queue delete",
    also: ["queue remove"],
    summary: "delete a queue",
    load: () => import("../jobs/queue-delete.ts"),
  },
  {
    words: "provider add",
    summary: "machines on demand: from this machine, Docker, Slurm, Kubernetes, ssh or Ray",
    load: () => import("../jobs/provider-add.ts"),
  },
  {
    words: "provider list",
    summary: "providers: their machines, offers, costs and troubles",
    load: () => import("../jobs/provider-list.ts"),
  },
  {
    words: "provider test",
    summary: "whether a provider could start machines, and what is wrong",
    load: () => import("../jobs/provider-test.ts"),
  },
  {
    words: "provider remove",
    also: ["provider delete"],
    summary: "give a provider's machines back and forget it",
    load: () => import("../jobs/provider-remove.ts"),
  },
  {
    words: "invite",
    summary: "a link with which others lend their machines",
    load: () => import("../fleet/invite.ts"),
  },
  {
    words: "acts",
    summary: "administrative acts: who did what, when, from where",
    load: () => import("../rights/acts.ts"),
  },
  {
    words: "credits budget",
    summary: "how much an owner's sessions may spend",
    load: () => import("../credits/credits-budget.ts"),
  },
  {
    words: "credits payout",
    summary: "note that credits were paid for outside of DCNR",
    load: () => import("../credits/credits-payout.ts"),
  },
  {
    words: "credits bond",
    summary: "lay down credits of this machine as a surety, or take them back",
    load: () => import("../credits/credits-bond.ts"),
  },
  {
    words: "nodes policy",
    summary: "who may join: open, invited or listed",
    load: () => import("../fleet/nodes-policy.ts"),
  },
  {
    words: "nodes admit",
    summary: "let a machine join by its key",
    load: () => import("../fleet/nodes-admit.ts"),
  },
  {
    words: "trust",
    summary: "what was checked of each machine, and why it is trusted",
    load: () => import("../fleet/trust.ts"),
  },
  {
    words: "doctor",
    summary: "examine this machine's memory and numbers; the way back from quarantine",
    load: () => import("../running/doctor.ts"),
  },
  {
    words: "audit",
    summary: "repeat what a machine computed, from blobs alone",
    load: () => import("../fleet/audit.ts"),
  },
  {
    words: "audit answer",
    summary: "repeat an answer of a served model that was found wrong",
    load: () => import("../fleet/audit-answer.ts"),
  },
  {
    words: "nodes drain",
    summary: "move everything away from a PNode",
    load: () => import("../fleet/nodes-drain.ts"),
  },
  {
    words: "nodes revoke",
    summary: "send a PNode away for good",
    load: () => import("../fleet/nodes-revoke.ts"),
  },
  {
    words: "nodes forget",
    summary: "remove the record of a PNode that is gone",
    load: () => import("../fleet/nodes-forget.ts"),
  },
]);
