// Loaded into a PNode's process before everything else, by tests alone: one bit of its weights is another, once, as where memory
// errs. Of the product's own code nothing is changed.

import { VNodeCompute } from "../../src/vnode/compute.ts";

const sound = VNodeCompute.prototype.update;
/** In the middle of the second interval. */
const errsAt = 6;
let updates = 0;

VNodeCompute.prototype.update = async function erring(...given: Parameters<typeof sound>) {
  const [first] = this.state.tensors.values();
  const weights = first?.data;
  if (weights instanceof Float32Array && weights.length > 0 && ++updates === errsAt) {
    const bits = new Uint32Array(weights.buffer, weights.byteOffset, 1);
    bits[0] = (bits[0] as number) ^ (1 << 22);
  }
  return sound.apply(this, given);
};
