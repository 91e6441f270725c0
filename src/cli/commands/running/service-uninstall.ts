// `dcnr service uninstall`: the machine is its owner's alone again; key and caches stay for the next time.

import type { Command } from "../../command.ts";
import { managerHere, runHere } from "../../service/here.ts";
import { uninstallService } from "../../service/service.ts";

export const command: Command = {
  summary: "Stop lending this machine by a service, and take the service away. dcnr leave --forget removes the rest.",
  examples: ["dcnr service uninstall"],
  run: async ({ flags, out }) => {
    const manager = managerHere();
    const gone = uninstallService(manager, runHere);
    if (flags.is("json")) out.json({ uninstalled: gone, file: manager.file });
    else out.line(gone ? `The service is gone, ${manager.file} too.` : "There is no service to uninstall.");
    return 0;
  },
};
