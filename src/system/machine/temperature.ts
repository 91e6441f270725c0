// How hot the processor is, where the system tells: Linux in /sys. Others tell it to their own programs alone.

import { type MachineView, thisMachine } from "./hardware.ts";

const zones = "/sys/class/thermal";
const sensors = "/sys/class/hwmon";
/** Drivers of processors' own sensors; those of disks and network cards say nothing of the work that is lent. */
const processors = new Set(["coretemp", "k10temp", "zenpower", "cpu_thermal"]);
/** Sensors that are not connected read as anything. */
const plausible = (celsius: number) => celsius > 0 && celsius < 150;

/** The hottest part of the processor in degrees Celsius; undefined where nothing tells. */
export function readTemperature(platform: string, machine: MachineView = thisMachine): number | undefined {
  if (platform !== "linux") return undefined;
  const read = (path: string) => Number(machine.readText(path)?.trim() || Number.NaN) / 1000;
  const ofSensors = machine.list(sensors).flatMap((sensor) => {
    const folder = `${sensors}/${sensor}`;
    if (!processors.has(machine.readText(`${folder}/name`)?.trim() ?? "")) return [];
    return machine.list(folder).flatMap((name) => (/^temp\d+_input$/.test(name) ? [read(`${folder}/${name}`)] : []));
  });
  const ofZones = machine.list(zones).flatMap((zone) => {
    const kind = machine.readText(`${zones}/${zone}/type`)?.trim() ?? "";
    return /^(x86_pkg_temp|cpu|soc|acpitz)/i.test(kind) ? [read(`${zones}/${zone}/temp`)] : [];
  });
  const all = [...ofSensors, ...ofZones].filter(plausible);
  return all.length > 0 ? Math.max(...all) : undefined;
}
