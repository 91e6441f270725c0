// Frees the memory of what a connection has read as soon as it was copied to where it belongs. Node reads into buffers that weigh next
// to nothing for the garbage collector, so that a gigabyte that passes through would leave hundreds of megabytes behind, or
// cost whole collections of some fifty milliseconds each.

/** Nobody may look at the piece afterwards. One that shares its memory with others stays for the collector. */
export function consumed(piece: Uint8Array): void {
  const { buffer, byteLength } = piece;
  if (buffer instanceof ArrayBuffer && buffer.byteLength === byteLength) buffer.transfer(0);
}
