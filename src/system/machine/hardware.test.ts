import { deepStrictEqual, strictEqual } from "node:assert/strict";
import { tmpdir } from "node:os";
import { test } from "node:test";
import { findHardware, type MachineView, measureGflops, readHealth, thisMachine } from "./hardware.ts";

const gibibyte = 1024 ** 3;

function machine(files: Record<string, string>, commands: Record<string, string> = {}): MachineView {
  return {
    readText: (path) => files[path],
    list: (path) =>
      [...new Set(Object.keys(files).filter((file) => file.startsWith(`${path}/`)))].map(
        (file) => file.slice(path.length + 1).split("/")[0] as string,
      ),
    totalMemoryBytes: () => 64 * gibibyte,
    freeMemoryBytes: () => 10 * gibibyte,
    parallelism: () => 16,
    cpuModel: () => "Test CPU",
    diskFreeBytes: () => 100 * gibibyte,
    run: async (command) => commands[command],
  };
}

test("a container's limits count, not the host's size", async () => {
  const facts = await findHardware(
    "/data",
    machine({ "/sys/fs/cgroup/memory.max": `${2 * gibibyte}\n`, "/sys/fs/cgroup/cpu.max": "150000 100000\n" }),
  );
  strictEqual(facts.memoryBytes, 2 * gibibyte);
  strictEqual(facts.cores, 1.5);
});

test("without limits the whole machine counts", async () => {
  const facts = await findHardware(
    "/data",
    machine({ "/sys/fs/cgroup/memory.max": "max\n", "/sys/fs/cgroup/cpu.max": "max 100000\n" }),
  );
  strictEqual(facts.memoryBytes, 64 * gibibyte);
  strictEqual(facts.cores, 16);
  deepStrictEqual(facts.gpus, []);
});

test("limits of the older cgroup version are read too", async () => {
  const facts = await findHardware(
    "/data",
    machine({
      "/sys/fs/cgroup/memory/memory.limit_in_bytes": "1073741824\n",
      "/sys/fs/cgroup/cpu/cpu.cfs_quota_us": "400000\n",
      "/sys/fs/cgroup/cpu/cpu.cfs_period_us": "100000\n",
    }),
  );
  strictEqual(facts.memoryBytes, gibibyte);
  strictEqual(facts.cores, 4);
});

test("GPUs are listed as nvidia-smi prints them, and garbage is left out", async () => {
  const text = "NVIDIA RTX 4090, 24564\nNVIDIA A100-SXM4-40GB, 40960\nFailed to initialize NVML\n";
  const { gpus } = await findHardware("/data", machine({}, { "nvidia-smi": text }));
  deepStrictEqual(
    gpus.map((gpu) => [gpu.model, gpu.memoryBytes / 1024 ** 2, gpu.vendor]),
    [
      ["NVIDIA RTX 4090", 24564, "nvidia"],
      ["NVIDIA A100-SXM4-40GB", 40960, "nvidia"],
    ],
  );
});

test("the hottest believable sensor is the machine's temperature", () => {
  const zones = {
    "/sys/class/thermal/thermal_zone0/temp": "41000\n",
    "/sys/class/thermal/thermal_zone1/temp": "73500\n",
    "/sys/class/thermal/thermal_zone2/temp": "-274000\n",
    "/proc/meminfo": "MemTotal: 100 kB\nMemAvailable:    2048 kB\n",
  };
  const health = readHealth(machine(zones));
  strictEqual(health.temperatureCelsius, 73.5);
  strictEqual(health.memoryFreeBytes, 2048 * 1024);
  strictEqual("temperatureCelsius" in readHealth(machine({})), false);
});

test("this machine has a name, a core, memory and disk", async () => {
  const facts = await findHardware(tmpdir(), thisMachine);
  strictEqual(facts.cpuModel.length > 0 && facts.cores >= 1 && facts.memoryBytes > 0 && facts.diskBytes > 0, true);
});

test("speed is the best try, in floating-point operations per nanosecond", async () => {
  const ticks = [0, 4, 4, 6, 6, 16];
  const clock = { wallMs: () => 0, monotonicMs: () => ticks.shift() as number };
  strictEqual(await measureGflops(() => {}, 8e6, clock, 3), 4);
});

test("where nvidia-smi is missing, a WebGPU adapter is found if the runtime offers one", async () => {
  const adapter = { model: "Radeon 780M", memoryBytes: 2 * gibibyte, vendor: "amd" };
  const { gpus } = await findHardware("/data", { ...machine({}), webGpu: async () => adapter });
  deepStrictEqual(gpus, [adapter]);
});
