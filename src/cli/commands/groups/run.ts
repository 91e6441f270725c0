// Commands that run a network or a part of it on this machine.

import { inGroup } from "../../command.ts";

export const runCommands = inGroup("Run", [
  {
    words: "up",
    summary: "a whole network on this machine: orchestrator and PNodes",
    load: () => import("../running/up.ts"),
  },
  {
    words: "orchestrator",
    summary: "an orchestrator on this machine",
    load: () => import("../running/orchestrator.ts"),
  },
  {
    words: "join",
    summary: "lend this machine to a network",
    load: () => import("../running/join.ts"),
  },
  {
    words: "lend",
    summary: "pause, resume or end the lending of this machine",
    load: () => import("../running/lend.ts"),
  },
  {
    words: "leave",
    summary: "take this machine back; --forget leaves nothing of it",
    load: () => import("../running/leave.ts"),
  },
  {
    words: "service install",
    summary: "keep this machine lent across restarts",
    load: () => import("../running/service-install.ts"),
  },
  {
    words: "service status",
    summary: "whether a service lends this machine",
    load: () => import("../running/service-status.ts"),
  },
  {
    words: "service uninstall",
    summary: "take the service away",
    load: () => import("../running/service-uninstall.ts"),
  },
  {
    words: "demo",
    summary: "the whole story in some two minutes: train, lose a PNode, recover",
    load: () => import("../running/demo.ts"),
  },
]);
