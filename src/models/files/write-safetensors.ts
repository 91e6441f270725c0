// Writes weights as safetensors, whichever names they get: the header, and a file that is there whole or not at all, with one
// VNode's weights in memory at a time.

import { open, rename, rm } from "node:fs/promises";
import { fail, messageOf } from "../../core/errors.ts";
import type { VNodeId } from "../../core/ids.ts";
import { bytesOf, type Shape, type Tensor, tensorBytes } from "../../core/tensor.ts";
import type { Plan } from "../../network/plan.ts";

export interface WriteProgress {
  readonly vnodes: number;
  readonly of: number;
  readonly bytes: number;
}

export interface WrittenWeights {
  readonly header: Uint8Array;
  readonly plan: Plan;
  /** Weights of one VNode by parameter name; asked for in the plan's order, one VNode at a time. */
  readonly weightsOf: (vnode: VNodeId) => Promise<ReadonlyMap<string, Tensor>>;
  /** What a parameter is in the file, in the header's order. */
  readonly stored: (tensor: Tensor, name: string, shape: Shape) => Iterable<Tensor>;
  readonly onProgress: (progress: WriteProgress) => void;
}

/** Returns the file's size. */
export async function writeSafetensors(path: string, written: WrittenWeights): Promise<number> {
  const { header, plan, weightsOf, stored, onProgress } = written;
  const part = `${path}.part`;
  const file = await open(part, "w").catch((thrown) =>
    fail("failed_precondition", `${path} cannot be written: ${messageOf(thrown)}`, thrown),
  );
  try {
    await file.writeFile(header);
    let bytes = header.byteLength;
    for (const [index, vnode] of plan.vnodes.entries()) {
      const weights = vnode.parameters.length > 0 ? await weightsOf(vnode.id) : new Map<string, Tensor>();
      for (const { name, shape } of vnode.parameters) {
        const tensor = weights.get(name) ?? fail("data_loss", `the state has no weights for ${name}`);
        for (const one of stored(tensor, name, shape)) {
          const data = bytesOf(one);
          await file.writeFile(data);
          bytes += data.byteLength;
        }
      }
      onProgress({ vnodes: index + 1, of: plan.vnodes.length, bytes });
    }
    await file.sync();
    await file.close();
    await rename(part, path);
    return bytes;
  } catch (error) {
    await file.close().catch(() => {});
    await rm(part, { force: true });
    throw error;
  }
}

export function safetensorsHeader(
  shapes: readonly (readonly [string, Shape])[],
  metadata: Readonly<Record<string, string>> = { format: "pt" },
): Uint8Array {
  const header: Record<string, unknown> = { __metadata__: metadata };
  let end = 0;
  for (const [name, shape] of shapes) {
    const start = end;
    end += tensorBytes("float32", shape);
    header[name] = { dtype: "F32", shape, data_offsets: [start, end] };
  }
  const text = new TextEncoder().encode(JSON.stringify(header));
  // Values start at a multiple of 8, so that readers can view them in place.
  const headerBytes = Math.ceil(text.byteLength / 8) * 8;
  const bytes = new Uint8Array(8 + headerBytes).fill(0x20);
  new DataView(bytes.buffer).setBigUint64(0, BigInt(headerBytes), true);
  bytes.set(text, 8);
  return bytes;
}
