// What the network knows of a machine that is lent and its owner wants to know: what was verified of its work, and whether others
// run a newer release.

import { LedgerService } from "../../protocol/gen/dcnr/v1/ledger_pb.ts";
import { SystemService } from "../../protocol/gen/dcnr/v1/system_pb.ts";
import type { Network } from "../../protocol/network.ts";

export interface NetworkNews {
  /** Credits that the machine's key has for work that is final. */
  readonly earned: bigint;
  /** A sentence, if the orchestrator runs a newer release. */
  readonly update?: string;
}

/** From the first orchestrator that answers. */
export function askNetwork(
  machine: { readonly id: string; readonly software: string },
  orchestrators: readonly string[],
  network: Pick<Network, "call">,
): Promise<NetworkNews> {
  return Promise.any(
    orchestrators.map(async (at) => {
      const { balances } = await network.call(at, LedgerService.method.listBalances, { owner: machine.id });
      const { software } = await network.call(at, SystemService.method.getVersion, {});
      const update = updateNotice(machine.software, software);
      return {
        earned: balances.reduce((sum, { earned }) => sum + earned, 0n),
        ...(update === undefined ? {} : { update }),
      };
    }),
  );
}

export function updateNotice(own: string, theirs: string): string | undefined {
  if (!isNewer(theirs, own)) return undefined;
  return `the network runs DCNR ${theirs}, this is ${own}: install the newer one and start dcnr join again`;
}

/** Of versions such as 0.2.10; what is no version is not newer. */
function isNewer(a: string, b: string): boolean {
  const parts = (version: string) => /^(\d+)\.(\d+)\.(\d+)/.exec(version)?.slice(1).map(Number);
  const [left, right] = [parts(a), parts(b)];
  const differing = left?.findIndex((part, index) => part !== right?.[index]) ?? -1;
  return differing >= 0 && right !== undefined && (left?.[differing] ?? 0) > (right[differing] ?? 0);
}
