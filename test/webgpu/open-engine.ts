// Opens the webgpu engine and says how it went.

import { DcnrError } from "../../src/core/errors.ts";
import { openWebgpuEngine } from "../../src/engine/webgpu/engine.ts";

try {
  const engine = await openWebgpuEngine();
  console.log(await engine.numericsClass());
  await engine.close();
} catch (thrown) {
  const { code, message } = DcnrError.from(thrown);
  console.log(`${code}: ${message}`);
  process.exitCode = 3;
}
