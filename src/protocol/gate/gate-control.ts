// The PNode's end of the one connection by which it and its gate tell each other things: who comes, what is asked for besides connections. When
// it breaks the gate is gone, and the PNode with it: without its gate it has nobody to talk to, and another process waits to be started.

import type { Socket } from "node:net";
import { DcnrError, fail } from "../../core/errors.ts";
import type { KeyId } from "../../core/ids.ts";
import type { Succession } from "../../core/keys.ts";
import type { Log } from "../../core/world.ts";
import type { Caller } from "../network.ts";
import type { Line } from "../routes/line.ts";
import type { Handed, Handing } from "../server/grpc-server.ts";
import { encodeRecord, RecordReader } from "../socket/records.ts";
import { askGate, type GatePlace } from "./behind.ts";
import { controlBytesMax, errorOf, jsonOf, jsonRecord, type Told } from "./gate-wire.ts";
import { recordLine } from "./splice.ts";

/** Of the key that the gate holds, everything that others may know. */
export interface GateIdentity {
  readonly id: KeyId;
  /** The present one's. */
  readonly key: KeyId;
  readonly publicKey: Uint8Array;
  readonly former: readonly Succession[];
}

export interface GateControlOptions extends GatePlace {
  readonly log: Log;
  /** For the person. */
  readonly say: (sentence: string) => void;
  readonly onGone: () => void;
}

type Incoming = Told & { kind: "incoming" };

export class GateControl {
  readonly #options: GateControlOptions;
  readonly #socket: Socket;
  readonly #asked = new Map<number, PromiseWithResolvers<unknown>>();
  readonly #takers = new Map<Incoming["as"], (incoming: Incoming) => void>();
  #signing: { readonly socket: Socket; readonly due: PromiseWithResolvers<Uint8Array>[] } | undefined;
  #identity: GateIdentity | undefined;
  #requests = 0;

  private constructor(options: GateControlOptions) {
    this.#options = options;
    this.#socket = askGate(options, { ask: "control" });
    this.#socket.on("error", () => this.#socket.destroy());
    this.#socket.once("close", () => {
      const gone = new DcnrError("unavailable", "the gate of this PNode is gone");
      for (const { reject } of this.#asked.values()) reject(gone);
      options.onGone();
    });
    void this.#listen().catch(() => this.#socket.destroy());
  }

  static async open(options: GateControlOptions): Promise<GateControl> {
    const control = new GateControl(options);
    type Hello = { id: KeyId; key: KeyId; publicKey: string; former: { publicKey: string; signature: string }[] };
    const { id, key, publicKey, former } = (await control.request("hello")) as Hello;
    const bytes = (text: string) => Uint8Array.from(Buffer.from(text, "base64"));
    const words = former.map((word) => ({ publicKey: bytes(word.publicKey), signature: bytes(word.signature) }));
    control.#identity = { id, key, publicKey: bytes(publicKey), former: words };
    return control;
  }

  get identity(): GateIdentity {
    return this.#identity ?? fail("internal", "the gate has not said yet whose it is");
  }

  request(name: string, given: unknown = null): Promise<unknown> {
    const id = ++this.#requests;
    const asked = Promise.withResolvers<unknown>();
    this.#asked.set(id, asked);
    this.#socket.write(jsonRecord({ kind: "request", id, name, given }));
    return asked.promise.finally(() => this.#asked.delete(id));
  }

  /** By the gate, which signs only what PNodes sign. */
  sign(content: Uint8Array): Promise<Uint8Array> {
    this.#signing ??= this.#openSigning();
    const { socket, due } = this.#signing;
    const signed = Promise.withResolvers<Uint8Array>();
    due.push(signed);
    socket.write(encodeRecord(content));
    return signed.promise;
  }

  /** Whoever comes to the page of this machine's owner. */
  onPage(take: (socket: Socket) => void): void {
    this.#takers.set("page", ({ ticket }) => take(this.#take(ticket)));
  }

  /** How a server gets those whom the gate has let in. `carry`: gives the gate a line that came by other ways. */
  handing(place: GatePlace, carry: (line: Line, from: string) => void): Handing {
    return async (handed: Handed) => {
      const tickets = new WeakMap<object, number>();
      const proved = (ticket: number) => void this.#socket.write(jsonRecord({ kind: "proved", ticket }));
      this.#takers.set("connection", ({ ticket, caller }) => {
        const socket = known(askGate(place, { ask: "take", ticket }), caller);
        tickets.set(socket, ticket);
        socket.once("error", () => socket.destroy());
        socket.once("connect", () => handed.connection(socket));
      });
      this.#takers.set("line", ({ ticket, caller }) =>
        handed.line(recordLine(this.#take(ticket)), caller, () => proved(ticket)),
      );
      return {
        address: String(await this.request("serve")),
        accept: carry,
        proved: (socket) => {
          const ticket = tickets.get(socket);
          if (ticket !== undefined) proved(ticket);
        },
        close: () => this.#takers.clear(),
      };
    };
  }

  close(): void {
    this.#socket.removeAllListeners("close");
    this.#socket.destroy();
    this.#signing?.socket.destroy();
  }

  #take(ticket: number): Socket {
    const socket = askGate(this.#options, { ask: "take", ticket });
    socket.on("error", () => socket.destroy());
    return socket;
  }

  #openSigning() {
    const socket = askGate(this.#options, { ask: "sign" });
    const due: PromiseWithResolvers<Uint8Array>[] = [];
    socket.on("error", () => socket.destroy());
    const receive = async () => {
      const reader = new RecordReader(socket[Symbol.asyncIterator]() as AsyncIterator<Uint8Array>);
      for (let signature = await reader.next(64); signature; signature = await reader.next(64)) {
        const signed = due.shift();
        if (signature.byteLength > 0) signed?.resolve(signature);
        else signed?.reject(new DcnrError("permission_denied", "the gate does not sign this"));
      }
    };
    void receive()
      .catch(() => {})
      .finally(() => {
        socket.destroy();
        this.#signing = undefined;
        for (const { reject } of due) reject(new DcnrError("unavailable", "the gate of this PNode is gone"));
      });
    return { socket, due };
  }

  async #listen(): Promise<void> {
    const reader = new RecordReader(this.#socket[Symbol.asyncIterator]() as AsyncIterator<Uint8Array>);
    for (let record = await reader.next(controlBytesMax); record; record = await reader.next(controlBytesMax))
      this.#hear(jsonOf<Told>(record));
  }

  #hear(told: Told): void {
    const { log, say } = this.#options;
    if (told.kind === "log") log(told.level, told.sentence);
    else if (told.kind === "say") say(told.sentence);
    else if (told.kind === "incoming") this.#takers.get(told.as)?.(told);
    else if (told.refused) this.#asked.get(told.id)?.reject(errorOf(told.refused));
    else this.#asked.get(told.id)?.resolve(told.result);
  }
}

/** A connection whose other end is who the gate says it is. */
function known(socket: Socket, { id, keys, address, port }: Caller): Socket {
  Object.defineProperty(socket, "remoteAddress", { value: address });
  Object.defineProperty(socket, "remotePort", { value: port });
  if (id !== undefined) Object.defineProperty(socket, "provedHolder", { value: { id, keys: keys ?? [id] } });
  return socket;
}
