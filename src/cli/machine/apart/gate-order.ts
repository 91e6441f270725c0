// What a gate's process is told when it is started, and what the PNode behind it is told: no more than each needs.

import type { GatePlace } from "../../../protocol/gate/behind.ts";

/** On the gate's standard input. */
export interface GateOrder extends GatePlace {
  /** The PNode's own, which exists; the key is there. */
  readonly directory: string;
  /** The process that becomes the front, whose child the gate is. */
  readonly parent: number;
  /** Where the owner sent it, and which private networks are open to it. */
  readonly named: readonly string[];
  readonly networks: readonly string[];
  /** The folder of the socket was made for it alone: the PNode's directory has too long a name. */
  readonly isFolderOurs: boolean;
  readonly web: boolean;
  readonly listen: string;
  readonly page?: number;
  /** How long orchestrators may take to answer first; null: for ever. */
  readonly patienceMs: number | null;
  readonly collector?: { readonly url: string; readonly headers: Readonly<Record<string, string>> };
}

/** In the environment of the PNode's process. */
export interface BehindOrder extends GatePlace {
  readonly addresses: readonly string[];
  readonly invite: string;
  /** What the system keeps from it, in words. */
  readonly boundary: string;
}

export const behindVariable = "DCNR_BEHIND";

/** Once: nobody else has use for it. */
export function takeBehindOrder(environment: NodeJS.ProcessEnv): BehindOrder | undefined {
  const text = environment[behindVariable];
  delete environment[behindVariable];
  return text === undefined ? undefined : (JSON.parse(text) as BehindOrder);
}
