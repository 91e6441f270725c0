// What passes between a PNode's process and its gate (gate.ts), over one local socket in the PNode's own directory. Each connection begins
// with one record that says what is asked; what follows depends on that. Records are four bytes of length, then JSON or bytes.

import type { Duplex } from "node:stream";
import { DcnrError, type ErrorCode, type Outlook } from "../../core/errors.ts";
import type { KeyId } from "../../core/ids.ts";
import type { Caller } from "../network.ts";
import { encodeRecord } from "../socket/records.ts";

/** What a connection is for. `token`: only whoever was started together with the gate knows it. */
export type Ask = { readonly token: string } & (
  | { readonly ask: "control" }
  | { readonly ask: "sign" }
  /** Bytes to whoever holds the address' key. `nobody`: without showing one's own. */
  | { readonly ask: "dial"; readonly address: string; readonly nobody?: boolean }
  /** The same for what is spoken over sockets: whole messages, each a record. */
  | { readonly ask: "line"; readonly address: string; readonly nobody?: boolean }
  /** Bytes to a server of blobs, proved by the key or by a certificate of the web. */
  | { readonly ask: "web"; readonly host: string; readonly port: number; readonly tls: boolean; readonly key?: KeyId }
  /** Somebody calls on a line that this process carries itself: the gate greets it, and hands it back. */
  | { readonly ask: "carried"; readonly from: string }
  /** A connection that the gate has told of. */
  | { readonly ask: "take"; readonly ticket: number }
);

/** The first record that comes back on a dialled connection. */
export type Answer = { readonly keys?: readonly KeyId[] } | { readonly refused: Refused };

export interface Refused {
  readonly code: ErrorCode;
  readonly message: string;
  readonly outlook: Outlook;
}

/** On the control connection, from the gate. */
export type Told =
  | { readonly kind: "answer"; readonly id: number; readonly result?: unknown; readonly refused?: Refused }
  | { readonly kind: "log"; readonly level: "debug" | "info" | "warn" | "error"; readonly sentence: string }
  | { readonly kind: "say"; readonly sentence: string }
  | {
      readonly kind: "incoming";
      readonly ticket: number;
      readonly as: "connection" | "line" | "page";
      readonly caller: Caller;
    };

/** On the control connection, to the gate. */
export type Wanted =
  | { readonly kind: "request"; readonly id: number; readonly name: string; readonly given: unknown }
  /** Whoever came by this ticket has asked for something. */
  | { readonly kind: "proved"; readonly ticket: number };

/** Routes and keys are short, and so is what is asked for. */
export const askBytesMax = 8 << 10;
/** Traces are the longest. */
export const controlBytesMax = 4 << 20;

export function jsonRecord(value: Ask | Answer | Told | Wanted): Uint8Array {
  return encodeRecord(new TextEncoder().encode(JSON.stringify(value)));
}

export function jsonOf<T>(record: Uint8Array): T {
  return JSON.parse(new TextDecoder().decode(record)) as T;
}

export function refusedBy(error: unknown): Refused {
  const { code, message, outlook } = DcnrError.from(error, "unavailable");
  return { code, message, outlook };
}

export function errorOf({ code, message, outlook }: Refused): DcnrError {
  return new DcnrError(code, message, { outlook });
}

/** One record, and not a byte more: what follows stays in the socket for whoever speaks on it next. */
export function readRecord(socket: Duplex, bytesMax: number): Promise<Uint8Array> {
  return new Promise((resolve, reject) => {
    let length = -1;
    const settle = (then: () => void) => {
      socket.off("readable", read);
      socket.off("close", closed);
      socket.off("error", closed);
      then();
    };
    const closed = () => settle(() => reject(new DcnrError("unavailable", "the gate closed the connection")));
    const read = () => {
      if (length < 0) {
        const prefix = socket.read(4) as Buffer | null;
        if (prefix === null) return;
        // What has ended gives out what is left, be it less than was asked for.
        if (prefix.byteLength < 4) return closed();
        length = prefix.readUInt32BE(0);
        if (length === 0 || length > bytesMax)
          return settle(() => reject(new DcnrError("invalid_argument", `a record of ${length} bytes is too long`)));
      }
      const record = socket.read(length) as Buffer | null;
      if (record !== null && record.byteLength < length) return closed();
      if (record !== null) settle(() => resolve(record));
    };
    socket.on("readable", read);
    socket.on("close", closed);
    socket.on("error", closed);
    read();
  });
}
