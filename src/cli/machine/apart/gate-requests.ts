// What a PNode's process may ask of its gate besides connections: whom its owner sent it to, where others reach it, and that its traces get to the owner's collector,
// to which the gate alone shows something. None of it reaches anybody, or tells anything, beyond what the owner named.

import { isIP } from "node:net";
import { DcnrError } from "../../../core/errors.ts";
import { rewrittenTraces } from "../../../monitoring/otlp.ts";
import type { GateOptions } from "../../../protocol/gate/gate.ts";
import { formatAddress, parseAddress } from "../../../protocol/routes/address.ts";
import type { Reach } from "../../../protocol/routes/reach.ts";
import { type OrchestratorsAt, orchestratorsAt } from "../../joining/introduction.ts";
import { pinned } from "../../joining/known-networks.ts";
import { reachableAddress } from "../../joining/reachable.ts";
import { postJson } from "../../monitoring/pnode.ts";
import type { GateOrder } from "./gate-order.ts";

export interface GateRequests
  extends Pick<GateOrder, "named" | "patienceMs" | "collector">,
    Pick<OrchestratorsAt, "path" | "network" | "world"> {
  readonly reach: Reach;
}

export function gateRequests({
  named,
  patienceMs,
  collector,
  reach,
  ...asking
}: GateRequests): GateOptions["requests"] {
  return {
    orchestrators: async (_, say) => {
      const signal = new AbortController().signal;
      const all = { ...asking, say, patienceMs: patienceMs ?? Number.POSITIVE_INFINITY, signal };
      return pinned(await orchestratorsAt(named, all), all);
    },
    located: async (given) => {
      const { bound, towards } = given as { readonly bound: string; readonly towards: string };
      return reachableAddress(String(bound), await judged(String(towards), reach));
    },
    traces: async (body) => {
      if (collector !== undefined) await postJson(collector.url, rewrittenTraces(String(body)), collector.headers);
      return null;
    },
  };
}

/** The same place by its number, where it may be called at all: from which address this machine would call somebody tells of its networks. */
async function judged(towards: string, reach: Reach): Promise<string> {
  const { host, port } = parseAddress(towards, 443);
  reach.check(host);
  const number = isIP(host) === 0 ? await numberOf(host, reach) : host;
  return formatAddress(number, port);
}

/** The older kind where there is one, by which more is reached. */
function numberOf(host: string, { lookup }: Reach): Promise<string> {
  return new Promise((resolve, reject) =>
    lookup(host, { all: true }, (error, found) => {
      if (error !== null || typeof found === "string") return reject(DcnrError.from(error, "unavailable"));
      resolve((found.find(({ family }) => family === 4) ?? found[0])?.address ?? host);
    }),
  );
}
