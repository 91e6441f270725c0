// What waits at a served VNode: passes of which some inputs came, and whole ones that wait for those before them. Whoever owns a
// VNode before it can send more than it computes, so both are bounded, in number and in bytes; tensors that are coming count too.

import type { WireTensor } from "../../vnode/wire.ts";
import { haveSameRows, type Pass } from "./pass.ts";

export interface WaitingPass {
  readonly pass: Pass;
  readonly inputs: Map<string, WireTensor>;
}

/** Passes of which only some inputs came; more would mean that a peer misbehaves. */
const partsMax = 256;
/** A conductor has nine under way, and a few hundred of explicit tensors, each with an input or some. */
const tensorsMax = 1_024;
/** One may be larger. */
const bytesMax = 256 << 20;

export class WaitingPasses {
  readonly #parts = new Map<number, WaitingPass>();
  #tensors = 0;
  #bytes = 0;

  hasRoom(bytes: number): boolean {
    return this.#tensors < tensorsMax && (this.#bytes === 0 || this.#bytes + bytes <= bytesMax);
  }

  /** A tensor is coming, or waits. */
  take(bytes: number): void {
    this.#tensors++;
    this.#bytes += bytes;
  }

  give(bytes: number): void {
    this.#tensors--;
    this.#bytes -= bytes;
  }

  /** False where other inputs came for other rows: who sends one of them does not say which rows the others are. */
  fits(pass: Pass): boolean {
    const part = this.#parts.get(pass.id);
    return part === undefined || haveSameRows(part.pass, pass);
  }

  /** The whole pass once all of `ports` are there; whoever has computed it says so. */
  add(port: string, pass: Pass, tensor: WireTensor, ports: readonly string[]): WaitingPass | undefined {
    const part = this.#parts.get(pass.id) ?? { pass, inputs: new Map() };
    this.#parts.set(pass.id, part);
    const before = part.inputs.get(port);
    if (before) this.give(before.bytes.byteLength);
    this.take(tensor.bytes.byteLength);
    part.inputs.set(port, tensor);
    if (ports.every((name) => part.inputs.has(name))) {
      this.#parts.delete(pass.id);
      return part;
    }
    if (this.#parts.size > partsMax) this.#drop(this.#parts.keys().next().value as number);
    return undefined;
  }

  done({ inputs }: WaitingPass): void {
    for (const { bytes } of inputs.values()) this.give(bytes.byteLength);
  }

  /** Of an earlier turn: what is missing never comes. */
  dropParts(): void {
    for (const [id, { pass }] of this.#parts) if (!pass.plain) this.#drop(id);
  }

  #drop(id: number): void {
    const part = this.#parts.get(id);
    this.#parts.delete(id);
    if (part) this.done(part);
  }
}
