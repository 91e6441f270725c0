// What somebody lends, checked against what the machine has: a limit that means nothing is refused, not believed.

import { fail } from "../../core/errors.ts";
import { parseAddress } from "../../protocol/routes/address.ts";
import { machineSize } from "../../system/machine/hardware.ts";
import { bytes } from "../shown/progress.ts";

export interface Lendable {
  readonly cpus: number;
  readonly memoryBytes: number;
}

/** Placement keeps 128 MiB of every PNode for the program itself: hardly more would hold no VNode. */
export const memoryBytesLeast = 136 * 2 ** 20;

export function thisMachine(): Lendable {
  const { cores, memoryBytes } = machineSize();
  return { cpus: cores, memoryBytes };
}

/** 0 stands for "as much as there is". */
export function checkLimits(lent: Lendable, machine: Lendable): void {
  if (lent.cpus > machine.cpus)
    fail("invalid_argument", `--cpus ${lent.cpus} is more than this machine has: it has ${machine.cpus} cores`);
  if (lent.memoryBytes === 0) return;
  if (lent.memoryBytes < memoryBytesLeast)
    fail(
      "invalid_argument",
      `--memory ${bytes(lent.memoryBytes)} is too little: lend ${bytes(memoryBytesLeast)} or more`,
    );
  if (lent.memoryBytes > machine.memoryBytes)
    fail(
      "invalid_argument",
      `--memory ${bytes(lent.memoryBytes)} is more than this machine has: it has ${bytes(machine.memoryBytes)}`,
    );
}

/** Others must be able to call it: a host with a port, and not "everywhere". */
export function checkAdvertised(address: string): void {
  const hasPort = /:\d+$/.test(address);
  const { host, port } = parseAddress(address, 1);
  if (!hasPort || port === 0 || host === "0.0.0.0" || host === "::" || host === "")
    fail(
      "invalid_argument",
      `--advertise takes an address that others can call, such as my-house.example:7801, not "${address}"`,
    );
}
