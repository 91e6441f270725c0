// Each rule from the owner's flag, by what the system says of itself, to the pause and the sentence on the screen.

import assert from "node:assert/strict";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, it, type TestContext } from "node:test";
import type { PNode } from "../../pnode/pnode.ts";
import type { MachineView } from "../../system/machine/hardware.ts";
import { parseCommandLine } from "../command.ts";
import { command } from "../commands/running/join.ts";
import { openOutput } from "../shown/output.ts";
import { rulesFrom } from "./rules.ts";
import { lendingTexts } from "./screen.ts";
import { Volunteering } from "./volunteering.ts";

/** What a system's files say; changed while it is watched. */
type Files = Record<string, string>;

function viewOf(files: Files): MachineView {
  return {
    readText: (path) => files[path],
    list: (path) => [
      ...new Set(
        Object.keys(files).flatMap((file) =>
          file.startsWith(`${path}/`) ? [file.slice(path.length + 1).split("/")[0] as string] : [],
        ),
      ),
    ],
    totalMemoryBytes: () => 8e9,
    freeMemoryBytes: () => 4e9,
    parallelism: () => 4,
    cpuModel: () => "a processor",
    diskFreeBytes: () => 1e9,
    run: async () => undefined,
  };
}

const attached = { attached: true, retainedBytes: 0, dataWaitMs: 0, lockerBytes: 0, vnodes: [] };
const pnode = {
  address: "192.168.1.5:7801",
  reach: { how: "directly", problem: "", relays: [] },
  readings: () => attached,
  problems: () => [],
} as unknown as PNode;

const laptop = (): Files => ({
  "/proc/version": "Linux",
  "/sys/class/power_supply/AC/type": "Mains",
  "/sys/class/power_supply/AC/online": "1",
  "/sys/class/power_supply/BAT0/type": "Battery",
  "/sys/class/power_supply/BAT0/status": "Charging",
  "/sys/class/thermal/thermal_zone0/type": "x86_pkg_temp",
  "/sys/class/thermal/thermal_zone0/temp": "60000",
});

function rulesOf(words: readonly string[], files: Files, system = "linux") {
  const { flags } = parseCommandLine(["lab:7700", ...words], command, "dcnr join", {
    fallback: () => undefined,
  } as never);
  return rulesFrom(flags, system, viewOf(files));
}

/** A machine that is lent by those flags: whether it is lent, and what its screen says. */
async function lent(context: TestContext, words: readonly string[], files = laptop()) {
  const folder = await mkdtemp(join(tmpdir(), "dcnr-rules-"));
  let passedMs = 0;
  let othersMs = 0;
  const time = { hour: 12 };
  const clock = { monotonicMs: () => passedMs, wallMs: () => new Date(2026, 0, 1, time.hour).getTime() };
  const around = {
    ...{ system: "linux", machine: viewOf(files) },
    cpuTimes: () => ({ busyMs: othersMs, totalMs: 4 * passedMs, ownMs: 0 }),
  };
  const out = openOutput({ NO_COLOR: "1" }, true);
  const volunteering = await Volunteering.open(folder, await rulesOf(words, files), out, clock, around);
  volunteering.begin(pnode, { name: "maple", network: "lab", lends: () => [] }, false);
  context.after(async () => {
    await volunteering.stop();
    await rm(folder, { recursive: true });
  });
  const said = () => {
    const { state } = volunteering;
    assert.ok(state);
    const { now } = lendingTexts(state);
    assert.equal(volunteering.lends(), !now.startsWith("not lent"), "heartbeats say what the screen says");
    return now;
  };
  /** Seconds in which other programs use that share of the processor. */
  const pass = async (seconds: number, othersShare = 0) => {
    for (let second = 0; second < seconds; second++) {
      passedMs += 1_000;
      othersMs += 4_000 * othersShare;
      await volunteering.tick();
    }
    return said();
  };
  return { files, time, pass, said };
}

describe("a machine that is lent by its owner's rules", () => {
  it("is lent while nothing is said, whatever it does", async (context) => {
    const { files, pass } = await lent(context, []);
    files["/sys/class/power_supply/AC/online"] = "0";
    files["/sys/class/power_supply/BAT0/status"] = "Discharging";
    files["/sys/class/thermal/thermal_zone0/temp"] = "99000";
    assert.equal(await pass(5, 1), "ready, waits for work");
  });

  it("--on-mains: pauses on battery and goes on when it is plugged in", async (context) => {
    const { files, pass, said } = await lent(context, ["--on-mains"]);
    assert.equal(said(), "ready, waits for work");
    files["/sys/class/power_supply/AC/online"] = "0";
    files["/sys/class/power_supply/BAT0/status"] = "Discharging";
    assert.equal(await pass(5), "not lent: it runs on battery");
    files["/sys/class/power_supply/AC/online"] = "1";
    assert.equal(await pass(5), "ready, waits for work");
  });

  it("--max-temperature: pauses above it, and goes on when it is clearly cooler", async (context) => {
    const { files, pass, said } = await lent(context, ["--max-temperature", "80"]);
    assert.equal(said(), "ready, waits for work");
    files["/sys/class/thermal/thermal_zone0/temp"] = "83000";
    assert.equal(await pass(5), "not lent: it is hotter than 80 °C");
    files["/sys/class/thermal/thermal_zone0/temp"] = "78000";
    assert.match(await pass(5), /^not lent/);
    files["/sys/class/thermal/thermal_zone0/temp"] = "70000";
    assert.equal(await pass(5), "ready, waits for work");
  });

  it("--when-idle: begins after a calm minute, and pauses as soon as somebody works", async (context) => {
    const { pass, said } = await lent(context, ["--when-idle"]);
    assert.equal(said(), "not lent: you use it yourself");
    assert.match(await pass(55), /^not lent/);
    assert.equal(await pass(10), "ready, waits for work");
    assert.equal(await pass(5, 0.5), "not lent: you use it yourself");
  });

  it("--hours: pauses outside of them and says which they are", async (context) => {
    const { pass, time, said } = await lent(context, ["--hours", "22-7"]);
    assert.equal(said(), "not lent: its hours are from 22 to 7 o'clock");
    time.hour = 23;
    assert.equal(await pass(5), "ready, waits for work");
    time.hour = 7;
    assert.match(await pass(5), /^not lent: its hours/);
  });

  it("is not lent by rules that its system cannot keep, or that mean nothing", async () => {
    await assert.rejects(
      rulesOf(["--max-temperature", "80"], {}),
      /does not tell how hot its processor is; leave it out/,
    );
    await assert.rejects(rulesOf(["--on-mains"], {}, "win32"), /does not tell whether it runs on mains power/);
    await assert.rejects(
      rulesOf(["--hours", "night"], laptop()),
      /--hours takes two hours of the day such as 22-7, not "night"/,
    );
    await assert.rejects(async () => rulesOf(["--max-temperature", "5"], laptop()), /from 30 to 120/);
    for (const nonsense of ["0", "-1", "half", "0.01"])
      await assert.rejects(
        async () => rulesOf(["--cpus", nonsense], laptop()),
        /--cpus takes a number of 0.05 or more/,
      );
  });
});
