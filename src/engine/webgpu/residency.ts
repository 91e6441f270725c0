// Which ranges of shared memory a device holds a copy of, and whose copy is the newer one. A range that is not listed lies in shared
// memory alone. Ranges of one memory never overlap: what a caller cuts differently goes back to shared memory first.

import { type Tensor, type TensorData, tensorBytes, viewData } from "../../core/tensor.ts";
import { type Device, type DeviceValue, sameValue } from "./device.ts";

export interface Piece {
  /** In bytes from the start of the memory. */
  readonly start: number;
  readonly end: number;
  readonly value: DeviceValue;
  /** Shared memory holds the same. */
  isShared: boolean;
}

type Bytes = Pick<Tensor, "data">;

export class Residency {
  readonly #device: Device;
  /** In the order of their places. */
  readonly #pieces = new Map<ArrayBufferLike, Piece[]>();

  constructor(device: Device) {
    this.#device = device;
  }

  /** What the device holds of exactly this tensor; what it holds of other cuts of the same bytes goes back first. */
  async find(tensor: Tensor): Promise<DeviceValue | undefined> {
    const { start, end } = rangeOf(tensor.data);
    const overlapping = this.overlapping(tensor);
    const [only] = overlapping;
    if (only === undefined) return undefined;
    const isExact = overlapping.length === 1 && only.start === start && only.end === end;
    if (isExact && sameValue(only.value, tensor)) return only.value;
    await this.release(tensor);
    return undefined;
  }

  /** The pieces that share bytes with the tensor. */
  overlapping({ data }: Bytes): Piece[] {
    const { start, end } = rangeOf(data);
    return (this.#pieces.get(data.buffer) ?? []).filter((piece) => piece.start < end && piece.end > start);
  }

  /** The device's value is the newest of this tensor. */
  async put(tensor: Tensor, value: DeviceValue, isShared: boolean): Promise<void> {
    const { start, end } = rangeOf(tensor.data);
    await this.overwritten(tensor);
    const pieces = this.#pieces.get(tensor.data.buffer) ?? [];
    pieces.push({ start, end, value, isShared });
    pieces.sort((a, b) => a.start - b.start);
    this.#pieces.set(tensor.data.buffer, pieces);
  }

  /** Shared memory sees what the device computed there. */
  async download(bytes: Bytes): Promise<void> {
    for (const piece of this.overlapping(bytes)) await this.#share(bytes.data.buffer, piece);
  }

  /** Shared memory is the only one to hold these bytes, as they are. */
  async release(bytes: Bytes): Promise<void> {
    for (const piece of this.overlapping(bytes)) {
      await this.#share(bytes.data.buffer, piece);
      this.#drop(bytes.data.buffer, piece);
    }
  }

  /** These bytes of shared memory are newer; of pieces that reach beyond them the rest is kept. */
  async overwritten(bytes: Bytes): Promise<void> {
    const { start, end } = rangeOf(bytes.data);
    const { buffer } = bytes.data;
    for (const piece of this.overlapping(bytes)) {
      if (!piece.isShared && (piece.start < start || piece.end > end))
        await this.#shareAround(buffer, piece, start, end);
      this.#drop(buffer, piece);
    }
  }

  /** Nobody will read any of it. */
  forget(buffer: ArrayBufferLike): void {
    for (const { value } of this.#pieces.get(buffer) ?? []) value.dispose();
    this.#pieces.delete(buffer);
  }

  clear(): void {
    for (const buffer of [...this.#pieces.keys()]) this.forget(buffer);
  }

  async #share(buffer: ArrayBufferLike, piece: Piece): Promise<void> {
    if (piece.isShared) return;
    await this.#device.download(piece.value, viewOf(piece, buffer, piece.start));
    piece.isShared = true;
  }

  async #shareAround(buffer: ArrayBufferLike, piece: Piece, start: number, end: number): Promise<void> {
    const { dtype, shape } = piece.value;
    const copy = new Uint8Array(new ArrayBuffer(tensorBytes(dtype, shape)));
    await this.#device.download(piece.value, viewOf(piece, copy.buffer, 0));
    const shared = new Uint8Array(buffer, piece.start, piece.end - piece.start);
    if (piece.start < start) shared.set(copy.subarray(0, start - piece.start));
    if (piece.end > end) shared.set(copy.subarray(end - piece.start), end - piece.start);
  }

  #drop(buffer: ArrayBufferLike, piece: Piece): void {
    const pieces = this.#pieces.get(buffer) ?? [];
    pieces.splice(pieces.indexOf(piece), 1);
    if (pieces.length === 0) this.#pieces.delete(buffer);
    piece.value.dispose();
  }
}

function rangeOf({ byteOffset, byteLength }: TensorData): { start: number; end: number } {
  return { start: byteOffset, end: byteOffset + byteLength };
}

function viewOf({ start, end, value }: Piece, buffer: ArrayBufferLike, at: number): TensorData {
  return viewData(value.dtype, new Uint8Array(buffer, at, end - start));
}
