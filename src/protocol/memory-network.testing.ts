// A network in memory for tests. No faults but those that a test asks for.

import { create, type DescMethod } from "@bufbuild/protobuf";
import { DcnrError, fail } from "../core/errors.ts";
import type { KeyId } from "../core/ids.ts";
import { gated } from "./identity/access.ts";
import type { CallContext, Channel, Network, ServedService } from "./network.ts";
import { withoutKey } from "./routes/address.ts";

class Queue<T> implements AsyncIterable<T> {
  readonly #items: T[] = [];
  #ended = false;
  #error: DcnrError | undefined;
  #wake: () => void = () => {};

  push(item: T): void {
    this.#items.push(item);
    this.#wake();
  }

  end(error?: DcnrError): void {
    this.#ended = true;
    this.#error ??= error;
    this.#wake();
  }

  get ended(): boolean {
    return this.#ended;
  }

  async *[Symbol.asyncIterator](): AsyncGenerator<T> {
    for (;;) {
      const item = this.#items.shift();
      if (item !== undefined) yield item;
      else if (this.#error !== undefined) throw this.#error;
      else if (this.#ended) return;
      else
        await new Promise<void>((wake) => {
          this.#wake = wake;
        });
    }
  }
}

interface OpenStream {
  readonly address: string;
  break(): void;
}

export class MemoryNetwork implements Network {
  readonly id: KeyId | undefined;
  readonly #servers: Map<string, readonly ServedService[]>;
  readonly #streams: Set<OpenStream>;

  constructor(id?: string, shared?: MemoryNetwork) {
    this.id = id as KeyId | undefined;
    this.#servers = shared ? shared.#servers : new Map();
    this.#streams = shared ? shared.#streams : new Set();
  }

  /** The same network for somebody who holds this key. */
  as(id: string): MemoryNetwork {
    return new MemoryNetwork(id, this);
  }

  /** Everything at this address is gone, as after a kill. */
  kill(address: string): void {
    this.#servers.delete(address);
    for (const stream of [...this.#streams]) if (stream.address === address) stream.break();
  }

  #handler(address: string, method: DescMethod): (...args: never[]) => unknown {
    const served = this.#servers
      .get(withoutKey(address))
      ?.find(({ descriptor }) => descriptor.typeName === method.parent.typeName);
    const handler = served?.handlers[method.localName];
    if (handler === undefined) fail("unavailable", `nobody serves ${method.name} at ${address}`);
    return handler as (...args: never[]) => unknown;
  }

  call: Network["call"] = async (address, method, request) => {
    const handler = this.#handler(address, method) as (...args: unknown[]) => Promise<object>;
    const response = await handler(create(method.input, request as never), this.#context());
    return create(method.output, response as never) as never;
  };

  watch: Network["watch"] = () => fail("unimplemented", "not needed here");

  open: Network["open"] = (address, method, options) => {
    const [up, down] = [new Queue<object>(), new Queue<object>()];
    const gone = new DcnrError("unavailable", `the stream to ${address} broke`);
    const endBoth = (error?: DcnrError) => {
      up.end(error);
      down.end(error);
    };
    const stream = { address: withoutKey(address), break: () => endBoth(gone) };
    this.#streams.add(stream);
    const close = () => endBoth();
    options?.signal?.addEventListener("abort", stream.break, { once: true });
    const end = (out: Queue<object>, input: Queue<object>, schema: DescMethod["input"]): Channel<never, never> => ({
      send: async (message) => {
        if (out.ended) throw gone;
        out.push(create(schema, message));
      },
      incoming: input as AsyncIterable<never>,
      close,
    });
    const serve = async () => {
      const handler = this.#handler(address, method) as (...args: unknown[]) => Promise<void>;
      await handler(end(down, up, method.output), this.#context());
    };
    serve().then(close, (error) => endBoth(DcnrError.from(error)));
    return end(up, down, method.input) as never;
  };

  serve: Network["serve"] = async (address, services, _http, gate) => {
    this.#servers.set(address, gated(services, gate));
    return { address, accept: (line) => line.close(), close: async () => this.kill(address) };
  };

  close = async () => {};

  #context(): CallContext {
    const caller = { address: "127.0.0.1", ...(this.id && { id: this.id }) };
    return { signal: new AbortController().signal, caller, header: () => undefined };
  }
}
