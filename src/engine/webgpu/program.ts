// A graph on a device of which nothing stays there: what engines give to whoever has no station.

import { allocate, type Tensor } from "../../core/tensor.ts";
import type { GraphModel } from "../../graph/model.ts";
import { checkTensors } from "../check-tensors.ts";
import type { Program } from "../engine.ts";
import type { DeviceProgram } from "./device.ts";

export function programOn(graph: GraphModel, program: DeviceProgram): Program {
  return {
    async run(feeds, into = {}) {
      checkTensors(graph, feeds, into);
      const outputs: Record<string, Tensor> = {};
      for (const { name, dtype, shape } of graph.outputs) outputs[name] = into[name] ?? allocate(dtype, shape);
      await program.run(feeds, outputs);
      return outputs;
    },
    release: () => program.release(),
  };
}
