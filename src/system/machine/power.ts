// Whether the machine runs on mains power, where the system tells: Linux in /sys, macOS by pmset.

import { type MachineView, thisMachine } from "./hardware.ts";

export type Power = "mains" | "battery" | "unknown";

const supplies = "/sys/class/power_supply";

export async function readPower(platform: string, machine: MachineView = thisMachine): Promise<Power> {
  if (platform === "linux") return linuxPower(machine);
  if (platform !== "darwin") return "unknown";
  const told = (await machine.run("pmset", ["-g", "batt"])) ?? "";
  if (/'AC Power'/.test(told)) return "mains";
  return /'(Battery|UPS) Power'/.test(told) ? "battery" : "unknown";
}

/** A machine without a battery has nothing but mains. */
function linuxPower(machine: MachineView): Power {
  // Absent in containers and in some virtual machines.
  if (machine.readText("/proc/version") === undefined) return "unknown";
  const read = (supply: string, name: string) => machine.readText(`${supplies}/${supply}/${name}`)?.trim();
  const all = machine.list(supplies);
  // A mouse has a battery too; its scope says so.
  const own = all.filter((supply) => read(supply, "scope") !== "Device");
  const batteries = own.filter((supply) => read(supply, "type") === "Battery");
  if (batteries.length === 0) return "mains";
  if (own.some((supply) => read(supply, "type") !== "Battery" && read(supply, "online") === "1")) return "mains";
  return batteries.some((supply) => read(supply, "status") === "Discharging") ? "battery" : "mains";
}
