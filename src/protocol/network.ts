// Calls and streams between processes, without saying how they travel. grpc.ts does it with gRPC over
// HTTP/2; simulation/ does it in memory with faults. Handlers are the same for both.

import type { DescMethod, DescService, MessageInitShape, MessageShape } from "@bufbuild/protobuf";
import type { KeyId } from "../core/ids.ts";
import type { KeyBook } from "./identity/key-book.ts";
import type { Line } from "./routes/line.ts";

export type UnaryMethod = DescMethod & { methodKind: "unary" };
export type ServerStreamMethod = DescMethod & { methodKind: "server_streaming" };
export type BidiMethod = DescMethod & { methodKind: "bidi_streaming" };

export type RequestOf<M extends DescMethod> = MessageShape<M["input"]>;
export type RequestInit<M extends DescMethod> = MessageInitShape<M["input"]>;
export type ResponseOf<M extends DescMethod> = MessageShape<M["output"]>;
export type ResponseInit<M extends DescMethod> = MessageInitShape<M["output"]>;

/** One end of a bidirectional stream. */
export interface Channel<Out, In> {
  /** Resolves when flow control lets more be sent; rejects once the stream is broken. */
  send(message: Out): Promise<void>;
  /** Ends when the other side closes; throws a DcnrError when the stream breaks. */
  readonly incoming: AsyncIterable<In>;
  /** Closes both ways; `incoming` ends. */
  close(): void;
}

export interface CallOptions {
  /** Of a unary call, all that comes before it included; streams last until somebody ends them. */
  readonly timeoutMs?: number;
  readonly signal?: AbortSignal;
}

/** Who calls, by the connection alone. */
export interface Caller {
  /** The hash of the key that it has proved to hold; absent where it showed none. */
  readonly id?: KeyId;
  /** All keys by which it has been known, the present one last; absent where the id's own is the only one. */
  readonly keys?: readonly KeyId[];
  /** Where it calls from. */
  readonly address: string;
  /** The port there; absent where somebody carries the connection. */
  readonly port?: number;
  /** What it may do, as the gate found; absent where nobody had to ask. */
  readonly roles?: Roles;
}

export type KeyScope = "generate" | "read" | "train" | "admin";

/** What the key is good for that somebody showed, and whose it is. */
export interface Roles {
  readonly scopes: readonly KeyScope[];
  /** An API key's id, or a person's key; empty for callers on the same machine, who need none. */
  readonly key: string;
  readonly owner: string;
  /** Only these networks, their sessions and models; absent: all. */
  readonly networks?: readonly string[];
  /** Only what its owner made. */
  readonly ownOnly?: boolean;
}

export interface CallContext {
  /** Aborts when the caller goes away. */
  readonly signal: AbortSignal;
  readonly caller: Caller;
  /** Lower-case names. */
  header(name: string): string | undefined;
}

export type UnaryHandler<M extends UnaryMethod> = (
  request: RequestOf<M>,
  context: CallContext,
) => Promise<ResponseInit<M>>;
export type ServerStreamHandler<M extends ServerStreamMethod> = (
  request: RequestOf<M>,
  context: CallContext,
) => AsyncIterable<ResponseInit<M>>;
/** Serves one stream until the returned promise settles; the stream is closed then. */
export type BidiHandler<M extends BidiMethod> = (
  channel: Channel<ResponseInit<M>, RequestOf<M>>,
  context: CallContext,
) => Promise<void>;

export type HandlerOf<M extends DescMethod> = M extends { methodKind: "unary" }
  ? UnaryHandler<M & UnaryMethod>
  : M extends { methodKind: "server_streaming" }
    ? ServerStreamHandler<M & ServerStreamMethod>
    : BidiHandler<M & BidiMethod>;

export type Handlers<S extends DescService> = { [Name in keyof S["method"]]: HandlerOf<S["method"][Name]> };

/** A service with its handlers; made by `service()` so that the pair is checked. */
export interface ServedService {
  readonly descriptor: DescService;
  readonly handlers: Record<string, unknown>;
}

export function service<S extends DescService>(descriptor: S, handlers: Handlers<S>): ServedService {
  return { descriptor, handlers: handlers as Record<string, unknown> };
}

/** Anything on the port that is not an RPC: blobs, the dashboard, metrics, the OpenAI-compatible API. */
export type HttpHandler = (request: Request, peer: string, counted: Counted) => Promise<Response | undefined>;

/** What a request takes of this process, by whose it is. */
export interface Counted {
  /** Bytes of it that came to lie in memory, or (negative) that lie there no more. False: there is no room, it must end. */
  hold(bytes: number): boolean;
  /** From now on it counts for this key, too, if there is one. Refuses with `resource_exhausted`. */
  countFor(key: string | undefined): void;
}

/** For requests that did not come over a wire. */
export const uncounted: Counted = { hold: () => true, countFor: () => {} };

export interface Server {
  /** "host:port" as bound. */
  readonly address: string;
  /** Somebody calls on a line. `from`: who carries it and for whom, as they say. */
  accept(line: Line, from: string): void;
  close(): Promise<void>;
}

/** What a process knows of its callers. Each throws a DcnrError to refuse. */
export interface Gate {
  /** The caller with the key that a token of its stands for; refuses keys that were replaced. */
  identify?(caller: Caller, authorization: string | undefined): Promise<Caller>;
  /** What the key is good for that the caller shows, if it has the scope. `authorization` is the header as it came. */
  key(caller: Caller, scope: KeyScope, authorization: string | undefined): Promise<Roles>;
  /** The caller is a PNode that is registered here and not sent away. */
  member(caller: Caller): Promise<void>;
  orchestrator(caller: Caller): Promise<void>;
  /** The caller is a PNode of the network, whatever it hosts, or an orchestrator of it. */
  network(caller: Caller): Promise<void>;
}

/** Direct ways through two routers that let nothing in, made together with the machine at the other end. */
export interface Punches {
  /** Makes the way that an address of the kind "punched" names, if there is none yet. */
  punch(address: string): Promise<void>;
  /** Whether there is one. */
  stands(address: string): boolean;
}

export interface Network {
  /** Absent where this cannot be done, as in browsers. */
  readonly punches?: Punches;
  /** Of the key that this process shows to whomever it calls; undefined for one that shows none. */
  readonly id: KeyId | undefined;
  /** The key that it shows now, if that has succeeded the id's own. */
  readonly key?: KeyId | undefined;
  /** Which keys have succeeded others; absent where keys never change, as in tests. */
  readonly keys?: KeyBook;
  call<M extends UnaryMethod>(
    address: string,
    method: M,
    request: RequestInit<M>,
    options?: CallOptions,
  ): Promise<ResponseOf<M>>;
  watch<M extends ServerStreamMethod>(
    address: string,
    method: M,
    request: RequestInit<M>,
    options?: CallOptions,
  ): AsyncIterable<ResponseOf<M>>;
  open<M extends BidiMethod>(address: string, method: M, options?: CallOptions): Channel<RequestInit<M>, ResponseOf<M>>;
  /** `gate` says who may call what; without one everybody may call everything. */
  serve(address: string, services: readonly ServedService[], http?: HttpHandler, gate?: Gate): Promise<Server>;
  close(): Promise<void>;
}

/** Whether a caller is whoever was known by `pinned`. */
export function isKnownBy(network: Pick<Network, "keys">, pinned: KeyId, { id, keys }: Caller): boolean {
  if (id === undefined) return false;
  return network.keys ? network.keys.follows(pinned, keys ?? [id]) : id === pinned;
}

/** A call that nobody answers must not hang for ever. */
export const callTimeoutMsDefault = 10_000;

export const protocolMajor = 1;
export const protocolMinor = 0;

/** Every message limit is explicit: one tensor chunk with its envelope is the largest of them. */
export const messageBytesMax = 4 << 20;
export const chunkBytesMax = 1 << 20;
/** Of what a PNode sends to learn how fast its line is. */
export const lineProbeBytesMax = 1 << 20;
/** Large enough for 10 MB/s and more at a round trip of 50 ms. */
export const windowBytes = 16 << 20;
