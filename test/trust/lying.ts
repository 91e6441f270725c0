// Loaded into a PNode's process before everything else, by tests alone: from then on it computes something else than it
// should, always alike. Of the product's own code nothing is changed.

import { VNodeCompute } from "../../src/vnode/compute.ts";

const honest = VNodeCompute.prototype.update;

VNodeCompute.prototype.update = async function lying(...given: Parameters<typeof honest>) {
  const [first] = this.state.tensors.values();
  const weights = first?.data;
  if (weights instanceof Float32Array && weights.length > 0) weights[0] = (weights[0] as number) + 0.25;
  return honest.apply(this, given);
};
