// What every group of calls needs: the one orchestrator that is asked, and lists that come in pages.

import type {
  CallOptions,
  Network,
  RequestInit,
  ResponseOf,
  ServerStreamMethod,
  UnaryMethod,
} from "../../protocol/network.ts";

/**
 * Whom a person waits for is told by the connection, which is broken within seconds of its other end; a call that is under way
 * on a busy machine (a definition to compile, a file to read) may take as long as the orchestrator itself gives it.
 */
const patienceMs = 90_000;

export class Line {
  readonly address: string;
  readonly network: Network;

  constructor(address: string, network: Network) {
    this.address = address;
    this.network = network;
  }

  call<M extends UnaryMethod>(method: M, request: RequestInit<M>, options?: CallOptions): Promise<ResponseOf<M>> {
    return this.network.call(this.address, method, request, { timeoutMs: patienceMs, ...options });
  }

  watch<M extends ServerStreamMethod>(
    method: M,
    request: RequestInit<M>,
    options?: CallOptions,
  ): AsyncIterable<ResponseOf<M>> {
    return this.network.watch(this.address, method, request, options);
  }
}

export async function allPages<T>(page: (token: string) => Promise<{ items: T[]; next: string }>): Promise<T[]> {
  const items: T[] = [];
  for (let token = ""; ; ) {
    const answer = await page(token);
    items.push(...answer.items);
    if (answer.next === "") return items;
    token = answer.next;
  }
}
