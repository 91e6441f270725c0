import assert from "node:assert/strict";
import { after, it } from "node:test";
import type { Executor, KernelCall } from "../../engine/engine.ts";
import { openExecutor } from "../../engine/pool/threads.ts";
import { cannedResult, cannedTrouble } from "./canned-interval.ts";

const executor = await openExecutor({ kind: "portable", workers: 1 });
after(() => executor.close());

/** A core that is wrong in the same way each time: in what graphs come to, or in what optimizers do. */
function wrongAlike(isIn: "graphs" | "updates"): Executor {
  const off = (call: KernelCall): KernelCall =>
    "rate" in call ? ({ ...call, rate: Number(call.rate) * (1 + 2 ** -20) } as KernelCall) : call;
  if (isIn === "updates")
    return {
      ...executor,
      kernel: (call, options) => executor.kernel(off(call), options),
      kernels: (calls, options) => executor.kernels(calls.map(off), options),
    };
  return {
    ...executor,
    run: async (name, feeds, options) => {
      const results = await executor.run(name, feeds, options);
      for (const { data } of Object.values(results))
        if (data instanceof Float32Array) data[0] = (data[0] ?? 0) + 2 ** -10;
      return results;
    },
  };
}

it("comes to what is known, on every machine", async () => {
  assert.equal(await cannedTrouble(executor), undefined, `write down ${await cannedResult(executor)}`);
});

it("shows a core that is wrong in the same way each time", async () => {
  for (const isIn of ["graphs", "updates"] as const) {
    const found = [await cannedTrouble(wrongAlike(isIn)), await cannedTrouble(wrongAlike(isIn))];
    assert.match(found[0] ?? "", /another result than everywhere else/);
    assert.equal(found[1], found[0], "it is wrong alike");
  }
});
