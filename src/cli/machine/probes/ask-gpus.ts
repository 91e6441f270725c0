// The program that opens the engines of GPUs and says how they round (../lent-gpus.ts starts it): a bad driver takes this process down,
// and no other.

import { messageOf } from "../../../core/errors.ts";
import { openExactOn } from "../../../engine/exact/webgpu.ts";
import { openInlineExecutor } from "../../../engine/executor.ts";
import { hasCuda, openCudaEngine } from "../../../engine/onnx/cuda.ts";
import { openWebgpuEngine } from "../../../engine/webgpu/engine.ts";
import { deviceGflops } from "../../../engine/webgpu/speed.ts";
import type { Probed } from "../lent-gpus.ts";

async function askWebgpu(): Promise<Probed> {
  try {
    const engine = await openWebgpuEngine();
    const webgpu = await engine.numericsClass();
    const gflops = await deviceGflops(openInlineExecutor(engine), () => performance.now());
    const exact = await openExactOn(engine)
      .numericsClass()
      .catch(() => "");
    return { webgpu, gflops, exact };
  } catch (thrown) {
    return { trouble: messageOf(thrown) };
  }
}

/** Nothing where CUDA was not added. */
async function askCuda(): Promise<Probed> {
  if (!hasCuda()) return {};
  try {
    return { cuda: await (await openCudaEngine()).numericsClass() };
  } catch (thrown) {
    return { cudaTrouble: messageOf(thrown) };
  }
}

process.stdout.write(`\n${JSON.stringify({ ...(await askWebgpu()), ...(await askCuda()) })}`);
