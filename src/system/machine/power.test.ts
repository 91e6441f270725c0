import assert from "node:assert/strict";
import { test } from "node:test";
import { type MachineView, thisMachine } from "./hardware.ts";
import { readPower } from "./power.ts";

function machine(files: Record<string, string>, pmset = ""): MachineView {
  const root = "/sys/class/power_supply";
  return {
    ...thisMachine,
    readText: (path) => (path === "/proc/version" ? "Linux" : files[path.slice(root.length + 1)]),
    list: () => [...new Set(Object.keys(files).map((path) => path.split("/")[0] as string))],
    run: async () => pmset,
  };
}

test("a laptop on its battery is told from one on mains, and from a machine without a battery", async () => {
  const battery = { "BAT0/type": "Battery\n", "BAT0/status": "Discharging\n" };
  assert.equal(await readPower("linux", machine({ ...battery, "AC/type": "Mains\n", "AC/online": "0\n" })), "battery");
  assert.equal(await readPower("linux", machine({ ...battery, "AC/type": "Mains\n", "AC/online": "1\n" })), "mains");
  assert.equal(await readPower("linux", machine({ "BAT0/type": "Battery", "BAT0/status": "Full" })), "mains");
  assert.equal(await readPower("linux", machine({})), "mains");
});

test("the battery of a mouse is not the machine's", async () => {
  const mouse = { "hid/type": "Battery", "hid/scope": "Device", "hid/status": "Discharging" };
  assert.equal(await readPower("linux", machine(mouse)), "mains");
});

test("macOS is asked by pmset; elsewhere nobody knows", async () => {
  assert.equal(await readPower("darwin", machine({}, "Now drawing from 'Battery Power'\n")), "battery");
  assert.equal(await readPower("darwin", machine({}, "Now drawing from 'AC Power'\n")), "mains");
  assert.equal(await readPower("win32", machine({})), "unknown");
});
