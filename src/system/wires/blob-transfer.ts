// Blobs over HTTP for a machine that is lent: no connection that its owner would not want (protocol/routes/reach.ts), no
// redirects, no headers but those of the address, and nothing that a server says reaches a log or an error, so that nobody can look through the machine into its owner's network. A slow
// transfer takes as long as it takes; one in which nothing moves is given up.

import { type ClientRequest, request as httpRequest, type IncomingMessage } from "node:http";
import { request as httpsRequest } from "node:https";
import { codeOfBlobRefusal } from "../../core/blobs.ts";
import { DcnrError, fail } from "../../core/errors.ts";
import type { KeyId } from "../../core/ids.ts";
import { type GatePlace, gateConnection } from "../../protocol/gate/behind.ts";
import type { KeyBook } from "../../protocol/identity/key-book.ts";
import { pinnedConnection } from "../../protocol/identity/pinned-http.ts";
import { Tls } from "../../protocol/identity/tls.ts";
import { parseAddress } from "../../protocol/routes/address.ts";
import type { Reach } from "../../protocol/routes/reach.ts";
import { consumed } from "./consumed.ts";

export interface HttpTransferOptions {
  /** Without a byte that moves for so long, a transfer has failed. */
  readonly stallMs?: number;
  /** From the last byte handed to the system until the server's answer: what is still in its buffers has to pass too. */
  readonly answerMs?: number;
  /** What may be connected to; everything if absent. */
  readonly reach?: Reach;
  /** What is known of keys that have succeeded others. */
  readonly keys?: KeyBook;
  /** By which it connects; absent: by itself. */
  readonly gate?: GatePlace;
  /** Whose certificates count, in PEM; those of the web if absent. */
  readonly authorities?: string;
}

/** How connections are made. */
interface Way {
  readonly reach: Reach | undefined;
  /** It calls as nobody: the address itself is what allows a transfer. */
  readonly tls: Tls;
  readonly authorities: string | undefined;
  readonly gate: GatePlace | undefined;
}

interface HttpAddress {
  readonly url: string;
  /** Whoever answers must hold it; a certificate of the web counts otherwise. */
  readonly key?: KeyId;
  /** Where a proxy may end TLS, such a certificate counts as well. */
  readonly orWeb?: boolean;
  readonly headers: Readonly<Record<string, string>>;
}

/** Handed to the system at a time: at 143 KB/s it takes half a second, so even slow lines show that they move. */
const sliceBytes = 64 << 10;

export function openHttpTransfer(options: HttpTransferOptions = {}) {
  const { stallMs = 30_000, answerMs = 180_000, reach, keys, authorities, gate } = options;
  const way: Way = { reach, authorities, gate, tls: new Tls(undefined, undefined, keys) };
  const proofs = new Proofs();
  return {
    upload: (to: HttpAddress, content: Uint8Array, signal?: AbortSignal) =>
      proofs.either(to, (proven) => upload(proven, content, signal)),
    download: (from: HttpAddress, into: Uint8Array, signal?: AbortSignal) =>
      proofs.either(from, (proven) => download(proven, into, signal)),
  };

  async function upload(to: HttpAddress, content: Uint8Array, signal?: AbortSignal): Promise<void> {
    const exchange = new Exchange("PUT", to, { "content-length": String(content.byteLength) }, way, signal);
    try {
      for (let at = 0; at < content.byteLength && !exchange.answered; at += sliceBytes)
        await exchange.write(content.subarray(at, at + sliceBytes), stallMs);
      exchange.end();
      const { statusCode = 0 } = await exchange.answer(answerMs);
      if (statusCode < 200 || statusCode > 299) throw refusal(statusCode, to, "unavailable");
    } catch (error) {
      throw exchange.answered ? error : proofs.unanswered(error);
    } finally {
      exchange.close();
    }
  }

  async function download(from: HttpAddress, into: Uint8Array, signal?: AbortSignal): Promise<void> {
    const exchange = new Exchange("GET", from, {}, way, signal);
    try {
      exchange.end();
      const answer = await exchange.answer(stallMs);
      if (answer.statusCode !== 200) throw refusal(answer.statusCode ?? 0, from, "not_found");
      const announced = Number(answer.headers["content-length"] ?? into.byteLength);
      if (announced !== into.byteLength) throw wrongLength(announced, into.byteLength);
      let at = 0;
      for await (const piece of exchange.pieces(answer, stallMs)) {
        if (at + piece.byteLength > into.byteLength) throw wrongLength(at + piece.byteLength, into.byteLength);
        into.set(piece, at);
        at += piece.byteLength;
        consumed(piece);
      }
      if (at !== into.byteLength) throw wrongLength(at, into.byteLength);
    } catch (error) {
      throw exchange.answered ? error : proofs.unanswered(error);
    } finally {
      exchange.close();
    }
  }
}

/** By what each server proves who it is, where a key or a certificate of the web will do. Nothing is sent to one that proves neither. */
class Proofs {
  /** Hosts with a proxy that ends TLS before them. */
  readonly #byWeb = new Set<string>();
  readonly #unanswered = new WeakSet<object>();

  unanswered(error: unknown): unknown {
    if (error instanceof Error) this.#unanswered.add(error);
    return error;
  }

  async either<Result>(address: HttpAddress, run: (proven: HttpAddress) => Promise<Result>): Promise<Result> {
    const { url, headers, orWeb } = address;
    if (!orWeb) return run(address);
    const { host } = new URL(url);
    if (this.#byWeb.has(host)) return run({ url, headers });
    try {
      return await run(address);
    } catch (error) {
      if (!(error instanceof Error && this.#unanswered.has(error))) throw error;
      // Whoever shows neither fails as it did with the key.
      const result = await run({ url, headers }).catch((other: unknown) => {
        throw other instanceof Error && this.#unanswered.has(other) ? error : other;
      });
      this.#byWeb.add(host);
      return result;
    }
  }
}

/** One request on a connection of its own. Every wait has an end. */
class Exchange {
  readonly #request: ClientRequest;
  readonly #host: string;
  readonly #answer: Promise<IncomingMessage>;
  readonly #failed: Promise<never>;
  readonly #forget: () => void;
  answered = false;

  constructor(
    method: "PUT" | "GET",
    { url, headers, key }: HttpAddress,
    framing: Readonly<Record<string, string>>,
    { reach, tls, authorities, gate }: Way,
    signal: AbortSignal | undefined,
  ) {
    const { protocol, host, hostname } = new URL(url);
    if (protocol !== "http:" && protocol !== "https:")
      fail("permission_denied", `blobs are not fetched by ${protocol}`);
    reach?.check(hostname);
    this.#host = host;
    // Whoever makes the connection ends TLS, too.
    const isMade = key !== undefined || gate !== undefined;
    const send = protocol === "https:" && !isMade ? httpsRequest : httpRequest;
    const place = { ...parseAddress(host, protocol === "https:" ? 443 : 80), ...(key && { key }) };
    const request = send(isMade ? url.replace(/^https:/, "http:") : url, {
      ...{ method, headers: { ...lowerCase(headers), ...framing } },
      ...(reach && { lookup: reach.lookup }),
      ...(gate !== undefined
        ? { createConnection: gateConnection(gate, { ...place, tls: protocol === "https:" }) }
        : key === undefined
          ? { agent: false, ...(authorities !== undefined && { ca: authorities }) }
          : { createConnection: pinnedConnection(tls, place, reach?.lookup) }),
    });
    this.#request = request;
    this.#answer = new Promise((resolve) =>
      request.once("response", (answer) => {
        this.answered = true;
        resolve(answer);
      }),
    );
    this.#failed = new Promise((_, reject) => {
      request.on("error", (error) => reject(asUnavailable(error, host)));
      request.once("close", () => reject(unavailable(`the blob store at ${host} closed the connection`)));
    });
    // Whoever waits hears of it; nobody may wait.
    this.#failed.catch(() => {});
    const abort = () => request.destroy(new DcnrError("cancelled", "the transfer was cancelled"));
    signal?.addEventListener("abort", abort, { once: true });
    this.#forget = () => signal?.removeEventListener("abort", abort);
    if (signal?.aborted) abort();
  }

  /** Resolves when the system has taken it, or an early answer makes the rest pointless. */
  async write(slice: Uint8Array, stallMs: number): Promise<void> {
    const taken = new Promise<void>((resolve) => this.#request.write(slice, () => resolve()));
    await this.#within(stallMs, Promise.race([taken, this.#answer]), "no byte was taken");
  }

  end(): void {
    this.#request.end();
  }

  answer(timeoutMs: number): Promise<IncomingMessage> {
    return this.#within(timeoutMs, this.#answer, "no answer came");
  }

  async *pieces(answer: IncomingMessage, stallMs: number): AsyncGenerator<Uint8Array> {
    const incoming = answer[Symbol.asyncIterator]() as AsyncIterator<Uint8Array>;
    for (;;) {
      const next = incoming.next().catch((error: Error) => Promise.reject(asUnavailable(error, this.#host)));
      const { done, value } = await this.#within(stallMs, next, "no byte came");
      if (done) return;
      yield value;
    }
  }

  close(): void {
    this.#forget();
    this.#request.destroy();
  }

  async #within<Result>(timeoutMs: number, work: Promise<Result>, what: string): Promise<Result> {
    let timer: NodeJS.Timeout | undefined;
    const late = new Promise<never>((_, reject) => {
      const why = `${what} for ${timeoutMs / 1000} s`;
      timer = setTimeout(() => reject(unavailable(`the transfer with ${this.#host} stalled: ${why}`)), timeoutMs);
    });
    try {
      return await Promise.race([work, late, this.#failed]);
    } finally {
      clearTimeout(timer);
    }
  }
}

function lowerCase(headers: Readonly<Record<string, string>>): Record<string, string> {
  return Object.fromEntries(Object.entries(headers).map(([name, value]) => [name.toLowerCase(), value]));
}

function refusal(status: number, { url }: HttpAddress, whenMissing: "not_found" | "unavailable"): DcnrError {
  const { host } = new URL(url);
  return new DcnrError(codeOfBlobRefusal(status, whenMissing), `the blob store at ${host} answered ${status}`);
}

function wrongLength(came: number, expected: number): DcnrError {
  return new DcnrError("data_loss", `a blob of ${expected} bytes came with ${came}: it is damaged or cut short`);
}

function unavailable(message: string): DcnrError {
  return new DcnrError("unavailable", message);
}

/** The system's code (ECONNREFUSED, EPIPE) and nothing that came over the wire. */
function asUnavailable(error: NodeJS.ErrnoException, host: string): DcnrError {
  if (error instanceof DcnrError) return error;
  return unavailable(`the blob store at ${host} cannot be reached (${error.code ?? "the connection broke"})`);
}
