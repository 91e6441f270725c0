// The thread in which works run (aside.ts): one order after the other. It knows no work by itself; orders name the module.

import { serialize } from "node:v8";
import { parentPort } from "node:worker_threads";
import type { Work } from "../../core/aside.ts";
import { freeBytes } from "../../core/bytes.ts";
import { DcnrError, messageOf } from "../../core/errors.ts";
import type { AsideAnswer, AsideOrder } from "./aside.ts";

parentPort?.on("message", async (order: AsideOrder) => {
  const { module } = order;
  if (order.name === undefined) {
    const loading: Promise<boolean> = import(module).then(
      () => true,
      () => false,
    );
    tell({ kind: "ready", module, loaded: await loading });
    return;
  }
  const { name, input } = order;
  try {
    const work = ((await import(module)) as Record<string, Work<unknown, unknown>>)[name];
    if (work === undefined) throw new Error(`${module} has no work ${name}`);
    tell({ kind: "begun" });
    const pieces = Array.from(work.run(input), (piece) => {
      const packed = serialize(piece);
      if (work.lane.freesBytes) freeAll(piece);
      return packed;
    });
    if (work.lane.freesBytes) freeAll(input);
    // They change threads without a copy: nobody here looks at them any more.
    tell({ kind: "done", pieces }, pieces.flatMap(wholeBuffer));
  } catch (thrown) {
    const known = thrown instanceof DcnrError && { code: thrown.code, outlook: thrown.outlook };
    tell({ kind: "failed", message: messageOf(thrown), ...known });
  }
});

function freeAll(value: unknown): void {
  const values = value instanceof Uint8Array ? [value] : Object.values(value as object);
  for (const one of values) if (one instanceof Uint8Array) freeBytes(one);
}

/** Small ones may lie in one buffer with others. */
function wholeBuffer({ buffer, byteLength }: Uint8Array): ArrayBuffer[] {
  return buffer instanceof ArrayBuffer && buffer.byteLength === byteLength ? [buffer] : [];
}

function tell(answer: AsideAnswer, given: readonly ArrayBuffer[] = []): void {
  parentPort?.postMessage(answer, given);
}
