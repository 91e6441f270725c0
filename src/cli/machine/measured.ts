// What was measured of a machine, told by one process to others on it: the PNodes that one command starts would find out the same,
// each with seconds of CPU time of its own. Told by the environment, which also reaches a process that may read no files.

import { sleep } from "../../core/world.ts";
import { Remembered } from "../../system/files/remembered.ts";
import { findHardware, type HardwareFacts } from "../../system/machine/hardware.ts";
import { backgroundTimers } from "../../system/timers.ts";
import { presenceOf } from "./additions.ts";
import { type Measured, measureMachine } from "./measure-machine.ts";
import { softwareVersion } from "./software.ts";

export const measuredVariable = "DCNR_MEASURED";

type Machine = Pick<HardwareFacts, "cpuModel" | "architecture">;

/** What is measured depends on these alone. */
function keyOf({ cpuModel, architecture }: Machine): string {
  const engines = presenceOf("native") === "not here" ? "portable" : "native";
  return [softwareVersion(), process.version, cpuModel, architecture, engines, "exact"].join("|");
}

/** What an earlier process found out, kept in a directory. */
export function rememberedMeasured(directory: string, machine: Machine): Remembered<Measured> {
  return new Remembered(directory, "measured.json", keyOf(machine));
}

/** What the environment tells of this machine; undefined if that is nothing, or not of this machine and this program. */
export function toldMeasured(environment: NodeJS.ProcessEnv, machine: Machine): Measured | undefined {
  try {
    const { key, measured } = JSON.parse(environment[measuredVariable] ?? "") as { key: string; measured: Measured };
    const { gflops, classes } = measured;
    const isWhole =
      Number.isFinite(gflops) &&
      gflops > 0 &&
      classes.every((one) => typeof one.engine === "string" && typeof one.class === "string");
    return key === keyOf(machine) && isWhole ? { gflops, classes } : undefined;
  } catch {
    return undefined;
  }
}

/** A machine that is too busy to be measured by then has PNodes that measure it themselves, when they can. */
const patienceMs = 15_000;

/** For the environment of processes on this machine. Measured once, and remembered in the directory. */
export async function tellingMeasured(directory: string, measure = measureMachine): Promise<NodeJS.ProcessEnv> {
  const machine = await findHardware(directory);
  const memory = rememberedMeasured(directory, machine);
  const found = async () => memory.set(await measure());
  const measured =
    toldMeasured(process.env, machine) ??
    (await memory.get()) ??
    (await Promise.race([found().catch(() => undefined), sleep(backgroundTimers, patienceMs).then(() => undefined)]));
  return measured ? { [measuredVariable]: JSON.stringify({ key: keyOf(machine), measured }) } : {};
}
