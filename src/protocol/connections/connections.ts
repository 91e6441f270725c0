// The connections of one process to others: one per address, opened when first needed, replaced when it no longer
// takes streams.

import type { ClientHttp2Stream } from "node:http2";
import type { Duplex } from "node:stream";
import { fail } from "../../core/errors.ts";
import { isPunched, shownRoute } from "../routes/routes.ts";
import { Connection, type ConnectionOptions, type StreamRequest } from "./connection.ts";

export class Connections {
  readonly #options: ConnectionOptions;
  readonly #current = new Map<string, Connection>();
  /** Those too that only end what was begun on them. */
  readonly #all = new Set<Connection>();

  constructor(options: ConnectionOptions) {
    this.#options = options;
  }

  open(address: string, request: StreamRequest): ClientHttp2Stream {
    return this.#to(address).open(request);
  }

  /** A connection that was made by other means, for an address at which nothing else can be opened. */
  adopt(address: string, socket: Duplex): void {
    this.#put(address, { ...this.#options, dial: () => socket });
  }

  /** Whether something stands at an address and takes streams. */
  stands(address: string): boolean {
    return this.#current.get(address)?.isOpen === true;
  }

  get count(): number {
    return this.#all.size;
  }

  /** Everything on them fails as cancelled. */
  close(): void {
    for (const connection of [...this.#all]) connection.close();
  }

  #to(address: string): Connection {
    const known = this.#current.get(address);
    if (known?.isOpen) return known;
    if (isPunched(address)) fail("unavailable", `the way to ${shownRoute(address)} is gone`);
    return this.#put(address, this.#options);
  }

  #put(address: string, options: ConnectionOptions): Connection {
    const connection: Connection = new Connection(address, options, () => {
      this.#all.delete(connection);
      if (this.#current.get(address) === connection) this.#current.delete(address);
    });
    this.#all.add(connection);
    this.#current.set(address, connection);
    return connection;
  }
}
