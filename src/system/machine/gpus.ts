// The GPUs of this machine and how they are now, from what the system tells: NVIDIA's own program, the kernel's files of AMD and Intel on
// Linux, macOS' registry, Windows' list of display adapters. Where nothing tells, there is none to lend.

import type { MachineView } from "./hardware.ts";

export interface GpuFacts {
  readonly model: string;
  /** 0 where the system does not tell; shared with the processor on machines that have one memory. */
  readonly memoryBytes: number;
  readonly vendor: string;
  /** Its name and version; empty where the system does not tell. */
  readonly driver?: string;
}

/** What cannot be told is absent. */
export interface GpuReading {
  /** 0 to 1. */
  readonly use?: number;
  readonly memoryUsedBytes?: number;
  readonly temperatureCelsius?: number;
}

export async function findGpus(machine: MachineView): Promise<GpuFacts[]> {
  const found = [...(await nvidia(machine)), ...kernelGpus(machine).map(({ facts }) => facts)];
  if (found.length > 0) return found;
  const elsewhere = [...(await mac(machine)), ...(await windows(machine))];
  if (elsewhere.length > 0) return elsewhere;
  const adapter = await machine.webGpu?.();
  return adapter ? [adapter] : [];
}

/** In the order of `findGpus`. */
export async function readGpus(machine: MachineView): Promise<GpuReading[]> {
  const fields = "utilization.gpu,memory.used,temperature.gpu";
  const rows = (await nvidiaRows(machine, fields)).map(([use, mebibytes, celsius]) => ({
    ...told("use", Number(use) / 100),
    ...told("memoryUsedBytes", Number(mebibytes) * mebibyte),
    ...told("temperatureCelsius", Number(celsius)),
  }));
  return [...rows, ...kernelGpus(machine).map(({ reading }) => reading)];
}

const mebibyte = 1024 * 1024;

function told<Name extends keyof GpuReading>(name: Name, value: number): GpuReading {
  return Number.isFinite(value) ? { [name]: value } : {};
}

async function nvidiaRows(machine: MachineView, fields: string): Promise<string[][]> {
  const text = await machine.run("nvidia-smi", [`--query-gpu=${fields}`, "--format=csv,noheader,nounits"]);
  return (text ?? "")
    .split("\n")
    .filter((line) => line.trim() !== "")
    .map((line) => line.split(",").map((field) => field.trim()));
}

async function nvidia(machine: MachineView): Promise<GpuFacts[]> {
  const rows = await nvidiaRows(machine, "name,memory.total,driver_version");
  return rows
    .filter(([model, mebibytes]) => model !== undefined && Number(mebibytes) > 0)
    .map(([model = "", mebibytes, driver]) => ({
      ...{ model, memoryBytes: Number(mebibytes) * mebibyte, vendor: "nvidia" },
      ...(driver && { driver: `nvidia ${driver}` }),
    }));
}

const pciVendors: Readonly<Record<string, string>> = { "0x1002": "amd", "0x8086": "intel" };

/** AMD's and Intel's, as their kernel drivers show them; NVIDIA's has no such files. */
function kernelGpus(machine: MachineView): { facts: GpuFacts; reading: GpuReading }[] {
  const root = "/sys/class/drm";
  const cards = machine.list(root).filter((name) => /^card\d+$/.test(name));
  return cards.sort().flatMap((card) => {
    const folder = `${root}/${card}/device`;
    const text = (file: string) => machine.readText(`${folder}/${file}`)?.trim();
    const number = (file: string) => Number(text(file) ?? Number.NaN);
    const vendor = pciVendors[text("vendor") ?? ""];
    if (vendor === undefined) return [];
    const driver = /^DRIVER=(.+)$/m.exec(text("uevent") ?? "")?.[1];
    const kernel = machine.readText("/proc/sys/kernel/osrelease")?.trim() ?? "";
    const sensors = machine.list(`${folder}/hwmon`)[0];
    const memoryBytes = number("mem_info_vram_total");
    return [
      {
        facts: {
          model: text("product_name") || `${vendor} ${text("device") ?? ""}`.trim(),
          memoryBytes: Number.isFinite(memoryBytes) ? memoryBytes : 0,
          vendor,
          ...(driver && { driver: `${driver} ${kernel}`.trim() }),
        },
        reading: {
          ...told("use", number("gpu_busy_percent") / 100),
          ...told("memoryUsedBytes", number("mem_info_vram_used")),
          ...(sensors ? told("temperatureCelsius", number(`hwmon/${sensors}/temp1_input`) / 1000) : {}),
        },
      },
    ];
  });
}

/** Apple's GPUs share the processor's memory. */
async function mac(machine: MachineView): Promise<GpuFacts[]> {
  const text = await machine.run("ioreg", ["-r", "-c", "IOAccelerator", "-d", "1"]);
  const models = [...(text ?? "").matchAll(/"model" = "([^"]+)"/g)].map(([, model]) => model ?? "");
  const system = (await machine.run("sw_vers", ["-productVersion"]))?.trim() ?? "";
  return models.map((model) => ({
    ...{ model, memoryBytes: machine.totalMemoryBytes(), vendor: "apple" },
    ...(system && { driver: `macOS ${system}` }),
  }));
}

/** Windows tells 4 GiB at most for a card's memory, so it is left out. */
async function windows(machine: MachineView): Promise<GpuFacts[]> {
  const script =
    "Get-CimInstance Win32_VideoController | ForEach-Object { $_.Name + '|' + $_.AdapterCompatibility + '|' + $_.DriverVersion }";
  const text = await machine.run("powershell", ["-NoProfile", "-Command", script]);
  return (text ?? "").split(/\r?\n/).flatMap((line) => {
    const [model = "", vendor = "", driver = ""] = line.split("|").map((field) => field.trim());
    if (model === "" || /basic (display|render)|remote display/i.test(model)) return [];
    return [{ model, memoryBytes: 0, vendor: vendor.toLowerCase().split(" ")[0] ?? "", driver }];
  });
}
