import { deepStrictEqual, strictEqual } from "node:assert/strict";
import { tmpdir } from "node:os";
import { test } from "node:test";
import { readGpus } from "./gpus.ts";
import { findHardware, type MachineView, measureGflops, readHealth, thisMachine } from "./hardware.ts";

const gibibyte = 1024 ** 3;

function machine(files: Record<string, string>, commands: Record<string, string> = {}): MachineView {
  return {
    readText: (path) => files[path],
    list: (path) => [
      ...new Set(
        Object.keys(files)
          .filter((file) => file.startsWith(`${path}/`))
          .map((file) => file.slice(path.length + 1).split("/")[0] as string),
      ),
    ],
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

test("GPUs of AMD and Intel are what the kernel's files say, with how they are now", async () => {
  const card = "/sys/class/drm/card1/device";
  const files = {
    [`${card}/vendor`]: "0x1002\n",
    [`${card}/device`]: "0x744c\n",
    [`${card}/product_name`]: "Radeon RX 7900 XTX\n",
    [`${card}/uevent`]: "DRIVER=amdgpu\nPCI_CLASS=30000\n",
    [`${card}/mem_info_vram_total`]: "25753026560\n",
    [`${card}/mem_info_vram_used`]: "1073741824\n",
    [`${card}/gpu_busy_percent`]: "37\n",
    [`${card}/hwmon/hwmon3/temp1_input`]: "61000\n",
    "/sys/class/drm/card0/device/vendor": "0x1a03\n",
    "/sys/class/drm/card1-DP-1/status": "connected\n",
    "/proc/sys/kernel/osrelease": "6.12.1\n",
  };
  const { gpus } = await findHardware("/data", machine(files));
  deepStrictEqual(gpus, [
    { model: "Radeon RX 7900 XTX", memoryBytes: 25753026560, vendor: "amd", driver: "amdgpu 6.12.1" },
  ]);
  deepStrictEqual(await readGpus(machine(files)), [{ use: 0.37, memoryUsedBytes: 1073741824, temperatureCelsius: 61 }]);
});

test("what NVIDIA's program does not know of a GPU is left out", async () => {
  const facts = machine({}, { "nvidia-smi": "NVIDIA A100, 40960, 570.12\n" });
  deepStrictEqual((await findHardware("/data", facts)).gpus, [
    { model: "NVIDIA A100", memoryBytes: 40960 * 1024 ** 2, vendor: "nvidia", driver: "nvidia 570.12" },
  ]);
  const now = machine({}, { "nvidia-smi": "93, 1024, 71\n[N/A], 12, [N/A]\n" });
  deepStrictEqual(await readGpus(now), [
    { use: 0.93, memoryUsedBytes: 1024 ** 3, temperatureCelsius: 71 },
    { memoryUsedBytes: 12 * 1024 ** 2 },
  ]);
});

test("GPUs of macOS are those of its registry, and share the processor's memory", async () => {
  const registry = '+-o AGXAcceleratorG13X  <class AGXAcceleratorG13X>\n  {\n    "model" = "Apple M1 Max"\n  }\n';
  const { gpus } = await findHardware("/data", machine({}, { ioreg: registry, sw_vers: "15.1\n" }));
  deepStrictEqual(
    gpus.map(({ model, vendor, driver }) => [model, vendor, driver]),
    [["Apple M1 Max", "apple", "macOS 15.1"]],
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
