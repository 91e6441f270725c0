import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { type MachineView, thisMachine } from "./hardware.ts";
import { readTemperature } from "./temperature.ts";

function machine(files: Readonly<Record<string, string>>): MachineView {
  const names = Object.keys(files);
  return {
    ...thisMachine,
    readText: (path) => files[path],
    list: (folder) => [
      ...new Set(
        names.flatMap((name) =>
          name.startsWith(`${folder}/`) ? [name.slice(folder.length + 1).split("/")[0] ?? ""] : [],
        ),
      ),
    ],
  };
}

describe("the processor's temperature", () => {
  it("is that of its hottest part, not of a disk, nor of a sensor that is not connected", () => {
    const hot = machine({
      "/sys/class/hwmon/hwmon0/name": "nvme\n",
      "/sys/class/hwmon/hwmon0/temp1_input": "99000\n",
      "/sys/class/hwmon/hwmon1/name": "k10temp\n",
      "/sys/class/hwmon/hwmon1/temp1_input": "61500\n",
      "/sys/class/hwmon/hwmon1/temp2_input": "72250\n",
      "/sys/class/hwmon/hwmon1/temp3_input": "-273000\n",
      "/sys/class/thermal/thermal_zone0/type": "acpitz\n",
      "/sys/class/thermal/thermal_zone0/temp": "40000\n",
      "/sys/class/thermal/thermal_zone1/type": "iwlwifi_1\n",
      "/sys/class/thermal/thermal_zone1/temp": "80000\n",
    });
    assert.equal(readTemperature("linux", hot), 72.25);
  });

  it("is not known where nothing tells it", () => {
    assert.equal(readTemperature("linux", machine({})), undefined);
    assert.equal(readTemperature("darwin", machine({})), undefined);
  });
});
