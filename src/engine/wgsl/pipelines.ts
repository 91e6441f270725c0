// Compiled shaders, by their code: graphs that are alike share them. Compiling is what a visitor waits for, so that they outlive the
// programs that needed them, up to a number.

import { fail, messageOf } from "../../core/errors.ts";

interface Pipeline {
  readonly ready: Promise<GPUComputePipeline>;
  users: number;
}

/** Above it those that no program uses go, the oldest first. */
const pipelinesMax = 512;

export class Pipelines {
  readonly #gpu: GPUDevice;
  readonly #known = new Map<string, Pipeline>();

  constructor(gpu: GPUDevice) {
    this.#gpu = gpu;
  }

  /** One more user of each. */
  take(codes: readonly string[]): Promise<GPUComputePipeline[]> {
    return Promise.all(codes.map((code) => this.#take(code)));
  }

  #take(code: string): Promise<GPUComputePipeline> {
    const known = this.#known.get(code) ?? { ready: this.#compile(code), users: 0 };
    known.users++;
    this.#known.set(code, known);
    // What a driver refused now it may take another time.
    known.ready.catch(() => this.#known.delete(code));
    return known.ready;
  }

  give(codes: readonly string[]): void {
    for (const code of codes) {
      const known = this.#known.get(code);
      if (known !== undefined) known.users--;
    }
    for (const [code, { users }] of this.#known)
      if (users <= 0 && this.#known.size > pipelinesMax) this.#known.delete(code);
  }

  async #compile(code: string): Promise<GPUComputePipeline> {
    try {
      // Nobody is told that the device is lost of what is caught here.
      this.#gpu.pushErrorScope("validation");
      const module = this.#gpu.createShaderModule({ code });
      const refused = await this.#gpu.popErrorScope();
      if (refused !== null) throw new Error(refused.message);
      return await this.#gpu.createComputePipelineAsync({ layout: "auto", compute: { module, entryPoint: "main" } });
    } catch (thrown) {
      return fail("internal", `the GPU's driver refuses a shader: ${messageOf(thrown).slice(0, 500)}`);
    }
  }
}
