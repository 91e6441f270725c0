// What a VNode has sent, kept from the recovery line on: a neighbour's new owner replays from there and asks
// for it again.

import type { VNodeId } from "../core/ids.ts";
import { keyOf, type MessageName, type Sealed } from "./names.ts";

export interface Outgoing<Payload> extends Sealed<Payload> {
  readonly name: MessageName;
  readonly to: VNodeId;
}

export type Retained<Payload> =
  | { readonly kind: "here"; readonly message: Outgoing<Payload> }
  /** Not computed yet: it will be sent when it is. */
  | { readonly kind: "coming" }
  /** Below what is kept: the asker has to start again at a newer line. */
  | { readonly kind: "gone" };

export class Outbox<Payload> {
  readonly #messages = new Map<string, Outgoing<Payload>>();
  /** Nothing below this step is kept. */
  #from: number;

  constructor(from: number) {
    this.#from = from;
  }

  retain(message: Outgoing<Payload>): void {
    this.#messages.set(keyOf(message.name), message);
  }

  find(name: MessageName): Retained<Payload> {
    const message = this.#messages.get(keyOf(name));
    if (message !== undefined) return { kind: "here", message };
    return name.step < this.#from ? { kind: "gone" } : { kind: "coming" };
  }

  /** Gives up everything below `line` and returns it, so that the host can free it. */
  collect(line: number): Payload[] {
    if (line <= this.#from) return [];
    this.#from = line;
    const released: Payload[] = [];
    for (const [key, message] of this.#messages) {
      if (message.name.step >= line) continue;
      released.push(message.payload);
      this.#messages.delete(key);
    }
    return released;
  }

  messages(): Outgoing<Payload>[] {
    return [...this.#messages.values()];
  }

  payloads(): Payload[] {
    return [...this.#messages.values()].map((message) => message.payload);
  }
}
