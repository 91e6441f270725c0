import { strict as assert } from "node:assert";
import { describe, test } from "node:test";
import { runOn, softwareGpus } from "./webgpu/software-gpu.ts";

/** Debian's older Mesa lacks what the runtime asks of a driver, which then finds no adapter. */
const refused = /the GPU's driver is refused|no GPU can be used/;

describe("the webgpu engine on software GPUs", async () => {
  const gpus = await softwareGpus();
  if (gpus.length === 0) test("needs Linux on x64", { skip: "the packaged drivers are for Linux on x64" }, () => {});
  for (const gpu of gpus)
    test(gpu.name, async (context) => {
      const { code, output } = await runOn(gpu, new URL("./webgpu/on-device.ts", import.meta.url));
      if (gpu.name !== "SwiftShader" && refused.test(output)) return context.skip("its driver is refused");
      assert.equal(code, 0, output);
    });

  test("says in one sentence that there is no GPU, and that a driver cannot be loaded", async () => {
    const file = new URL("./webgpu/open-engine.ts", import.meta.url);
    for (const driver of ["", "/nonexistent/driver.json"]) {
      const libraries = driver === "" ? "" : (gpus[0]?.environment["LD_LIBRARY_PATH"] ?? "");
      const environment = { VK_DRIVER_FILES: driver || "/nonexistent.json", LD_LIBRARY_PATH: libraries };
      const { code, output } = await runOn({ name: "none", environment }, file);
      assert.equal(code, 3);
      assert.match(
        output,
        /failed_precondition: no GPU can be used: there is none, or its driver is too old or has no/,
      );
    }
  });
});
