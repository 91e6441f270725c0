// GPUs for machines that have none: SwiftShader from the package that brings the tests' browser, and Mesa's lavapipe where it is
// installed. Both are ordinary Vulkan drivers to whoever loads them. A process finds them by its environment, which counts from its
// start: what uses them is a process of its own.

import { spawn } from "node:child_process";
import { createReadStream, existsSync } from "node:fs";
import { mkdir, readdir, readFile, rm, writeFile } from "node:fs/promises";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { pipeline } from "node:stream/promises";
import { createBrotliDecompress } from "node:zlib";

export interface SoftwareGpu {
  readonly name: string;
  readonly environment: Readonly<Record<string, string>>;
}

/** Those of this machine; none where the runtime has no WebGPU. */
export async function softwareGpus(): Promise<SoftwareGpu[]> {
  if (process.platform !== "linux" || process.arch !== "x64") return [];
  return [await swiftShader(), ...(await lavapipe())];
}

async function swiftShader(): Promise<SoftwareGpu> {
  const packaged = createRequire(import.meta.url).resolve("@sparticuz/chromium");
  const archive = join(dirname(dirname(dirname(packaged))), "bin", "swiftshader.tar.br");
  const folder = join(tmpdir(), `dcnr-swiftshader-${process.pid}`);
  await mkdir(folder, { recursive: true });
  process.once("exit", () => void rm(folder, { recursive: true, force: true }));
  const files = join(folder, "files.tar");
  const { createWriteStream } = await import("node:fs");
  await pipeline(createReadStream(archive), createBrotliDecompress(), createWriteStream(files));
  await extract(await readFile(files), folder);
  const driver = join(folder, "driver.json");
  const described = JSON.parse(await readFile(join(folder, "vk_swiftshader_icd.json"), "utf8"));
  // The package names the library by a path that depends on where one stands.
  described.ICD.library_path = join(folder, "libvk_swiftshader.so");
  await writeFile(driver, JSON.stringify(described));
  return { name: "SwiftShader", environment: { VK_DRIVER_FILES: driver, LD_LIBRARY_PATH: folder } };
}

/** The regular files of a tar archive: names and sizes stand in headers of 512 bytes. */
async function extract(archive: Buffer, folder: string): Promise<void> {
  const text = (start: number, length: number) =>
    archive.toString("latin1", start, start + length).split("\0")[0] ?? "";
  for (let at = 0; at + 512 <= archive.length; ) {
    const [name, size, kind] = [text(at, 100), Number.parseInt(text(at + 124, 12), 8) || 0, text(at + 156, 1)];
    if (name !== "" && (kind === "0" || kind === "") && !name.includes(".."))
      await writeFile(join(folder, name), archive.subarray(at + 512, at + 512 + size));
    at += 512 + Math.ceil(size / 512) * 512;
  }
}

async function lavapipe(): Promise<SoftwareGpu[]> {
  const folder = "/usr/share/vulkan/icd.d";
  if (!existsSync(folder)) return [];
  // Older ones name the processor they are for.
  const driver = (await readdir(folder)).find((name) => /^lvp_icd\.(x86_64\.)?json$/.test(name));
  return driver ? [{ name: "lavapipe", environment: { VK_DRIVER_FILES: join(folder, driver) } }] : [];
}

export interface Ended {
  readonly code: number;
  readonly output: string;
}

/** Runs a file of ours in a process that sees that GPU alone. */
export async function runOn(gpu: SoftwareGpu, file: URL, args: readonly string[] = []): Promise<Ended> {
  const { NODE_TEST_CONTEXT: _, ...inherited } = process.env;
  const environment = { ...inherited, ...gpu.environment, XDG_RUNTIME_DIR: tmpdir(), VK_LOADER_LAYERS_DISABLE: "*" };
  const child = spawn(process.execPath, [file.pathname, ...args], { env: environment });
  const output: Buffer[] = [];
  for (const stream of [child.stdout, child.stderr]) stream.on("data", (bytes: Buffer) => output.push(bytes));
  const code = await new Promise<number>((resolve) => child.once("close", (ended) => resolve(ended ?? -1)));
  return { code, output: Buffer.concat(output).toString() };
}
