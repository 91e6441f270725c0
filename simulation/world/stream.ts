// One bidirectional stream between two simulated hosts: each direction keeps its order and has a window, and
// the whole breaks when a message is lost, a partition lasts too long, or a host crashes.

import { DcnrError } from "../../src/core/errors.ts";
import { Lane, type Wire } from "./wire.ts";
import type { Host } from "./world.ts";

/** What waits to be read at one end. One reader at a time. */
export class Inbox<T> {
  #items: T[] = [];
  #ended = false;
  #error: DcnrError | undefined;
  #waiting: { resolve: (result: IteratorResult<T>) => void; reject: (error: unknown) => void } | undefined;
  readonly #taken: (item: T) => void;

  constructor(taken: (item: T) => void = () => {}) {
    this.#taken = taken;
  }

  push(item: T): void {
    if (this.#ended) return;
    const waiting = this.#waiting;
    if (waiting === undefined) {
      this.#items.push(item);
      return;
    }
    this.#waiting = undefined;
    this.#taken(item);
    waiting.resolve({ done: false, value: item });
  }

  /** Ends after what is queued already, or at once when `error` is given: a broken stream loses its queue. */
  end(error?: DcnrError): void {
    if (this.#ended) return;
    this.#ended = true;
    this.#error = error;
    if (error !== undefined) this.#items = [];
    const waiting = this.#waiting;
    this.#waiting = undefined;
    if (error !== undefined) waiting?.reject(error);
    else waiting?.resolve({ done: true, value: undefined });
  }

  next(): Promise<IteratorResult<T>> {
    const item = this.#items.shift();
    if (item !== undefined) {
      this.#taken(item);
      return Promise.resolve({ done: false, value: item });
    }
    if (this.#error !== undefined) {
      const error = this.#error;
      this.#error = undefined;
      return Promise.reject(error);
    }
    if (this.#ended) return Promise.resolve({ done: true, value: undefined });
    return new Promise((resolve, reject) => {
      this.#waiting = { resolve, reject };
    });
  }
}

export interface StreamEnd {
  readonly host: Host;
  readonly inbox: Inbox<Uint8Array>;
  readonly lane: Lane;
  /** Bytes that it sent and the other side has not taken. */
  inFlightBytes: number;
  waiting: { resolve: () => void; reject: (error: unknown) => void }[];
  /** Why no more can be sent from here. */
  closed: DcnrError | undefined;
  onGone: (() => void) | undefined;
}

export interface StreamOptions {
  readonly what: string;
  readonly windowBytes: number;
  /** Whether it may come to hang: those between PNodes, who notice by themselves. */
  readonly mayHang: boolean;
  readonly ended: (stream: SimulatedStream) => void;
}

export class SimulatedStream {
  readonly client: StreamEnd;
  readonly server: StreamEnd;
  readonly #wire: Wire;
  readonly #options: StreamOptions;
  #breaking = false;

  constructor(wire: Wire, client: Host, server: Host, options: StreamOptions) {
    this.#wire = wire;
    this.#options = options;
    this.client = this.#end(client, server, () => this.server);
    this.server = this.#end(server, client, () => this.client);
  }

  #end(host: Host, peer: Host, other: () => StreamEnd): StreamEnd {
    const inbox = new Inbox<Uint8Array>((message) => this.#credit(other(), message.byteLength));
    const stalled = () => this.breakOff("nothing got through", { withinMs: this.#wire.stallMs });
    const lane = new Lane(this.#wire, host, peer, stalled);
    return { host, inbox, lane, inFlightBytes: 0, waiting: [], closed: undefined, onGone: undefined };
  }

  /** Tells the trace what is being sent; messages of streams are unions with an `event`. */
  note(from: StreamEnd, message: { event?: { case?: string; value?: unknown } }): void {
    const { world } = this.#wire;
    const text = `sends ${message.event?.case ?? "message"} to ${this.#otherOf(from).host.name}`;
    world.trace.event(world.time.nowMs, from.host.name, text, () => brief(message.event?.value));
  }

  send(from: StreamEnd, message: Uint8Array): Promise<void> {
    if (from.closed !== undefined) return Promise.reject(from.closed);
    const to = this.#otherOf(from);
    if (this.#wire.strikes("loss", from.host, to.host, this.#options.what)) {
      // The sender's system goes on taking messages for a while before it gives the connection up.
      from.lane.cut();
      this.breakOff(`a message from ${from.host.name} to ${to.host.name} was lost`, { withinMs: 2_000 });
    }
    from.inFlightBytes += message.byteLength;
    from.lane.push(() => to.inbox.push(message), message.byteLength);
    // Neither end learns of it: nothing that is said from here on gets there.
    if (this.#options.mayHang && this.#wire.strikes("hang", from.host, to.host, this.#options.what)) from.lane.hang();
    if (from.inFlightBytes <= this.#options.windowBytes) return Promise.resolve();
    return new Promise((resolve, reject) => from.waiting.push({ resolve, reject }));
  }

  /** Closes in order: the other side reads what was sent, then the end, or `error` if one is given. */
  close(from: StreamEnd, error?: DcnrError): void {
    if (from.closed !== undefined) return;
    const { what } = this.#options;
    this.#shut(from, new DcnrError("cancelled", `the stream ${what} was closed here`));
    from.inbox.end();
    const to = this.#otherOf(from);
    from.lane.push(() => {
      to.inbox.end(error);
      this.#shut(to, new DcnrError("unavailable", `the stream ${what} was closed by ${from.host.name}`));
      this.#options.ended(this);
    });
  }

  /** Breaks both ways; each end learns of it on its own, some time within `withinMs`. */
  breakOff(reason: string, { withinMs, cause }: { withinMs: number; cause?: Error }): void {
    if (this.#breaking) return;
    this.#breaking = true;
    const error = new DcnrError("unavailable", `the stream ${this.#options.what} broke: ${reason}`, { cause });
    for (const end of [this.client, this.server]) {
      const delayMs = this.#wire.chance.between(0, withinMs);
      this.#wire.world.time.after(delayMs, () => {
        end.lane.cut();
        end.host.receive(() => {
          end.inbox.end(error);
          this.#shut(end, error);
        });
      });
    }
    this.#options.ended(this);
  }

  #shut(end: StreamEnd, error: DcnrError): void {
    if (end.closed !== undefined) return;
    end.closed = error;
    for (const { reject } of end.waiting) reject(error);
    end.waiting = [];
    end.onGone?.();
  }

  #credit(sender: StreamEnd, bytes: number): void {
    sender.inFlightBytes -= bytes;
    if (sender.waiting.length === 0 || sender.inFlightBytes > this.#options.windowBytes) return;
    const waiting = sender.waiting;
    sender.waiting = [];
    this.#wire.world.time.after(this.#wire.delayMs, () =>
      sender.host.receive(() => {
        for (const { resolve } of waiting) resolve();
      }),
    );
  }

  #otherOf(end: StreamEnd): StreamEnd {
    return end === this.client ? this.server : this.client;
  }
}

/** A message in one line, without its bytes. */
function brief(value: unknown): string {
  const text = JSON.stringify(value, (key, item) => {
    if (key.startsWith("$")) return undefined;
    if (item instanceof Uint8Array) return `${item.byteLength} bytes`;
    return typeof item === "bigint" ? Number(item) : item;
  });
  return text === undefined ? "" : text.slice(0, 300);
}
