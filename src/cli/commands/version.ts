// `dcnr version`: this program's version, and the orchestrator's where one answers.

import { answerBits, bits } from "../../core/bits.ts";
import { protocolMajor, protocolMinor } from "../../protocol/network.ts";
import type { Command } from "../command.ts";
import { connectionOptions, withClient } from "../joining/connection.ts";
import { softwareVersion } from "../machine/software.ts";

export const command: Command = {
  summary: "Show versions.",
  options: connectionOptions,
  examples: ["dcnr version", "dcnr version --json"],
  run: (context) =>
    withClient(context, async (client) => {
      const server = await client.system.version().catch(() => undefined);
      const protocol = `${protocolMajor}.${protocolMinor}`;
      const own = { software: softwareVersion(), protocol, bits, answerBits, node: process.version };
      if (context.flags.is("json")) return void context.out.json({ ...own, orchestrator: server });
      context.out.line(
        `dcnr ${own.software}, protocol ${own.protocol}, bits ${own.bits}, of answers ${own.answerBits}, node ${own.node}`,
      );
      context.out.line(
        server
          ? `orchestrator ${server.id} at ${client.address}: dcnr ${server.software}`
          : `no orchestrator answers at ${client.address}`,
      );
      return undefined;
    }),
};
