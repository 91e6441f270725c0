// When a machine is lent, by the flags of its owner. A rule that this system cannot keep is refused, not believed.

import { fail } from "../../core/errors.ts";
import { type Hours, parseHours } from "../../pnode/hours.ts";
import { type MachineView, thisMachine } from "../../system/machine/hardware.ts";
import { readPower } from "../../system/machine/power.ts";
import { readTemperature } from "../../system/machine/temperature.ts";
import type { Flags, OptionSpec } from "../command.ts";

export interface LendingRules {
  /** Only while others use little of the processor. */
  readonly whenIdle: boolean;
  readonly onMains: boolean;
  /** Degrees Celsius above which it is not lent; undefined if it may be as hot as it gets. */
  readonly hottest?: number | undefined;
  /** As the owner wrote them, and whether an hour is one of them; undefined for all. */
  readonly hours?: { readonly text: string; readonly include: Hours } | undefined;
}

export const ruleOptions = {
  "when-idle": { type: "boolean", summary: "lend only while you and your programs use little of the processor" },
  "max-temperature": {
    type: "number",
    least: 30,
    most: 120,
    summary: "lend only while the processor is no hotter than this, in degrees Celsius",
  },
  "on-mains": { type: "boolean", summary: "lend only on mains power, not on battery" },
  hours: { type: "string", value: "FROM-TO", summary: "lend only between these hours, for example 22-7" },
} satisfies Record<string, OptionSpec>;

export async function rulesFrom(
  flags: Flags,
  system: string,
  machine: MachineView = thisMachine,
): Promise<LendingRules> {
  const hottest = flags.optionalNumber("max-temperature");
  const onMains = flags.is("on-mains");
  const hours = flags.optionalText("hours");
  if (hottest !== undefined && readTemperature(system, machine) === undefined)
    fail("invalid_argument", "--max-temperature: this system does not tell how hot its processor is; leave it out");
  if (onMains && (await readPower(system, machine)) === "unknown")
    fail("invalid_argument", "--on-mains: this system does not tell whether it runs on mains power; leave it out");
  return {
    ...{ whenIdle: flags.is("when-idle"), onMains, hottest },
    ...(hours && { hours: { text: hoursText(hours), include: parseHours(hours) } }),
  };
}

/** "from 22 to 7 o'clock" */
export function hoursText(hours: string): string {
  return `from ${hours.replace("-", " to ")} o'clock`;
}
