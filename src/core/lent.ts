// What of a machine's memory is for VNodes. PNodes and orchestrators count alike: the ones to refuse, the others to choose.

/** Kept free on every PNode for the runtime itself. */
export const reserveBytes = 128 << 20;

/** `limitBytes` is the owner's limit, 0 without one. */
export function lentMemoryBytes(limitBytes: number, machineBytes: number): number {
  return Math.max(0, (limitBytes || machineBytes) - reserveBytes);
}
