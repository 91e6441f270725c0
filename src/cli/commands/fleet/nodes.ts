// `dcnr nodes`: the PNodes with what they have, how busy and how reliable they are.

import type { PNode } from "../../../protocol/gen/dcnr/v1/fleet_pb.ts";
import type { Relaying } from "../../../protocol/gen/dcnr/v1/pnode_pb.ts";
import type { Command } from "../../command.ts";
import { connectionOptions, joinAdvice, withClient } from "../../joining/connection.ts";
import { bytes } from "../../shown/progress.ts";

export const command: Command = {
  summary: "List PNodes: what they lend, load, reliability, numerics class.",
  options: connectionOptions,
  examples: ["dcnr nodes", "dcnr nodes --json | jq '.[].name'"],
  run: (context) =>
    withClient(context, async (client) => {
      const pnodes = await client.fleet.pnodes();
      const { out } = context;
      if (context.flags.is("json")) return void out.json(pnodes);
      if (pnodes.length === 0) return void out.advice(`No PNode has joined yet. ${joinAdvice(client.address)}`);
      out.table(
        [
          { title: "NAME" },
          { title: "STATUS" },
          { title: "VNODES", align: "right" },
          { title: "LOAD", align: "right" },
          { title: "CORES", align: "right" },
          { title: "MEMORY", align: "right" },
          { title: "GPUS", align: "right" },
          { title: "GFLOP/S", align: "right" },
          { title: "REACHED", shrink: true },
          { title: "RELIABLE", align: "right" },
          { title: "NUMERICS", shrink: true },
          { title: "ID", shrink: true },
        ],
        pnodes.map(row),
      );
      for (const { name, reachable } of pnodes)
        if (reachable.startsWith("not")) out.line(`${name} gets no work: ${reachable.slice("not: ".length)}`);
      for (const pnode of pnodes) for (const line of gpuLines(pnode)) out.line(line);
      for (const { name, relaying } of pnodes) if (relaying) out.line(`${name} ${relayingText(relaying)}`);
      return undefined;
    }),
};

/** One for each GPU: what it is, and how it is where the system tells. */
function gpuLines({ name, capabilities, gpus }: PNode): string[] {
  return (capabilities?.gpus ?? []).map(({ model, memoryBytes, driver }, index) => {
    const { use, memoryUsedBytes, temperatureCelsius } = gpus[index] ?? {};
    const used = memoryUsedBytes === undefined ? "" : `${bytes(memoryUsedBytes)} of `;
    const parts = [
      model,
      memoryBytes > 0n ? `${used}${bytes(memoryBytes)}` : "",
      driver,
      use === undefined ? "" : `${Math.round(use * 100)} % used`,
      temperatureCelsius === undefined ? "" : `${temperatureCelsius.toFixed(0)} °C`,
    ];
    return `${name} has ${parts.filter(Boolean).join(", ")}`;
  });
}

function relayingText({ machines, connections, bytesPerSecond, limitBytesPerSecond, slowed }: Relaying): string {
  const limit = limitBytesPerSecond === 0n ? "" : ` of ${bytes(limitBytesPerSecond)}/s`;
  const full = slowed ? ", and is at its limit: who uses it waits" : "";
  return `relays for ${machines} machines: ${connections} connections, ${bytes(bytesPerSecond)}/s${limit}${full}`;
}

function row(pnode: PNode): string[] {
  const { capabilities } = pnode;
  return [
    pnode.name || pnode.id,
    pnode.status,
    String(pnode.vnodes),
    `${Math.round(pnode.load * 100)} %`,
    String(pnode.limits?.cpus || capabilities?.cores || "?"),
    bytes(pnode.limits?.memoryBytes || capabilities?.memoryBytes || 0n),
    String(capabilities?.gpus.length ?? 0),
    capabilities?.gflops ? capabilities.gflops.toFixed(0) : "?",
    pnode.reachable.startsWith("not") ? "not" : pnode.reachable || "?",
    `${Math.round(pnode.reliability * 100)} %`,
    (capabilities?.numerics ?? []).map((numerics) => `${numerics.engine}:${numerics.class.slice(0, 8)}`).join(" "),
    pnode.id,
  ];
}
