// SystemService: who answers here, and how it is.

import { SystemService } from "../../protocol/gen/dcnr/v1/system_pb.ts";
import { protocolMajor, protocolMinor, type ServedService, service } from "../../protocol/network.ts";
import type { Context } from "../context.ts";
import { storeProblems } from "../views/health.ts";

export function systemService(context: Context): ServedService {
  return service(SystemService, {
    getVersion: async () => ({
      protocolMajor,
      protocolMinor,
      software: context.software,
      role: "orchestrator",
      id: context.id,
    }),
    // It serves what it knows while the store is away; `problems` says so.
    getHealth: async () => ({ ready: !context.tasks.stopped, problems: storeProblems(context) }),
  });
}
