// Encrypted connections between processes that know each other by their keys: TLS 1.3 with self-signed certificates, both
// ends shown, each pinned by the hash of its key. There are no authorities and no names.

import type { LookupFunction, Socket } from "node:net";
import type { Duplex } from "node:stream";
import { connect, createSecureContext, type SecureContext, TLSSocket } from "node:tls";
import { assert } from "../../core/assert.ts";
import { DcnrError } from "../../core/errors.ts";
import type { KeyId } from "../../core/ids.ts";
import { keyIdOf, type TlsIdentity } from "../../core/keys.ts";
import type { Timers } from "../../core/world.ts";
import { within } from "../connections/deadline.ts";
import { type Address, formatAddress } from "../routes/address.ts";
import { LineSocket } from "../routes/line-socket.ts";
import type { Signer } from "../socket/sealed-line.ts";
import { brokenBy } from "../streams/wire-errors.ts";
import { certificateOf, type Holder, holderOf } from "./certificate.ts";
import { KeyBook } from "./key-book.ts";

type Place = Pick<Address, "host" | "port" | "key">;

const meetTimeoutMs = 5_000;

/** What an operator brings for browsers and other clients of the web, as PEM. */
export interface WebCertificate {
  readonly cert: string;
  readonly key: string;
}

/** Processes of ours ask for this name, so that they are shown the key and browsers the web's certificate on one port. */
const ownName = "dcnr";

/** A TLS record of the handshake begins with this byte; no HTTP request does. */
export const handshakeByte = 0x16;

/** Certificates say nothing but a key, so the library's own checks of them have nothing to check. */
const pinnedByUs = { rejectUnauthorized: false, minVersion: "TLSv1.3" } as const;

export class Tls {
  /** Undefined for one that shows no key: it may call, and nobody can call it. */
  readonly id: KeyId | undefined;
  readonly keys: KeyBook;
  #key: KeyId | undefined;
  #identity: TlsIdentity | undefined;
  #context: SecureContext;

  /** For those who come by a name of the web. */
  readonly #web: SecureContext | undefined;

  constructor(identity?: TlsIdentity, web?: WebCertificate, keys = new KeyBook()) {
    this.id = identity?.id;
    this.keys = keys;
    this.#web = web && createSecureContext({ ...web, minVersion: "TLSv1.2" });
    this.#key = identity && keyIdOf(identity.publicKey);
    this.#identity = identity;
    this.#context = contextOf(identity);
  }

  /** The key that is shown now; another than the id's own if it has succeeded that. */
  get key(): KeyId | undefined {
    return this.#key;
  }

  /** For lines that are sealed without TLS. */
  get signer(): Signer | undefined {
    return this.#identity;
  }

  /** Shows this key of the same id from now on. Connections that stand are left alone. */
  become(identity: TlsIdentity): void {
    assert(identity.id === this.id, "a key speaks for the id of the one that it succeeds");
    this.#key = keyIdOf(identity.publicKey);
    this.#identity = identity;
    this.#context = contextOf(identity);
    this.keys.tell(identity.id, this.#key);
  }

  /**
   * Connects to whoever holds the address's key, or fails. Any key will do where the address names none. `lookup` finds
   * out what a name leads to, if not the system.
   */
  dial(address: Place, lookup?: LookupFunction): TLSSocket {
    const { host, port, key } = address;
    return this.#pinned(connect({ host, port, ...this.#greeting, ...(lookup && { lookup }) }), `${host}:${port}`, key);
  }

  /** The same over what somebody carries; `where` names it for people. */
  over(carried: Duplex, where: string, key: KeyId): TLSSocket {
    return this.#pinned(connect({ socket: carried, ...this.#greeting }), where, key);
  }

  get #greeting() {
    return { servername: ownName, secureContext: this.#context, ALPNProtocols: ["h2"], ...pinnedByUs };
  }

  #pinned(
    socket: TLSSocket,
    where: string,
    key: KeyId | undefined,
    met: (holder: KeyId) => void = () => {},
  ): TLSSocket {
    // Before anybody else hears of it: whoever sends at this event must not send to a stranger.
    const { emit } = socket;
    socket.emit = (event: string | symbol, ...args: unknown[]) => {
      if (event !== "secureConnect") return Reflect.apply(emit, socket, [event, ...args]);
      socket.emit = emit;
      const holder = holderAt(socket);
      if (holder !== undefined && (key === undefined || this.keys.follows(key, holder.keys))) {
        // Not every later look at the connection finds the certificate again.
        Object.defineProperty(socket, "provedHolder", { value: holder });
        met(holder.keys.at(-1) as KeyId);
        return socket.emit("secureConnect");
      }
      socket.destroy(notExpected(where, holder, key));
      return true;
    };
    return socket;
  }

  /** Whose key answers at a place: for those who come for the first time and have nobody to ask. */
  meet(place: Omit<Place, "key">, timers: Timers, timeoutMs = meetTimeoutMs): Promise<KeyId> {
    const where = formatAddress(place.host, place.port);
    return new Promise<KeyId>((resolve, reject) => {
      const { host, port } = place;
      const socket = this.#pinned(connect({ host, port, ...this.#greeting }), where, undefined, (holder) => {
        resolve(holder);
        socket.destroy();
      });
      const late = within(timers, timeoutMs, () =>
        socket.destroy(new DcnrError("unavailable", `${where} does not answer within ${timeoutMs} ms`)),
      );
      socket.once("error", (error) => reject(brokenBy(error, where)));
      socket.once("close", () => {
        late();
        reject(new DcnrError("unavailable", `${where} speaks no TLS: an older version, or something else`));
      });
    });
  }

  /** The other end of a connection that has begun to greet. It may show no key: people's clients and browsers have none. */
  accept(socket: Duplex): TLSSocket {
    const secured = new TLSSocket(socket as Socket, {
      isServer: true,
      secureContext: this.#web ?? this.#context,
      SNICallback: (name, found) => found(null, name === ownName || !this.#web ? this.#context : this.#web),
      requestCert: true,
      ALPNProtocols: ["h2", "http/1.1"],
      ...pinnedByUs,
      ...(this.#web && { minVersion: "TLSv1.2" }),
    });
    // What is carried has no address of its own, and whoever counts guests needs one.
    if (socket instanceof LineSocket || Object.hasOwn(socket, "remoteAddress"))
      Object.defineProperty(secured, "remoteAddress", { value: (socket as LineSocket).remoteAddress });
    // As the library's own server does; HTTP/2 waits for the greeting until this says that it is over.
    secured.prependOnceListener("secure", () => Object.assign(secured, { secureConnecting: false }));
    return secured;
  }
}

function contextOf(identity: TlsIdentity | undefined): SecureContext {
  return createSecureContext({
    ...(identity && { key: identity.privateKey, cert: certificateOf(identity) }),
    minVersion: "TLSv1.3",
  });
}

/** Whose key the other end has proved to hold; undefined over plain connections and where it showed none. */
export function holderAt(socket: unknown): Holder | undefined {
  // Seen before, or said by whoever of this machine has ended TLS (gate/gate-control.ts).
  const proved = (socket as { readonly provedHolder?: Holder } | undefined)?.provedHolder;
  if (proved !== undefined) return proved;
  const certificate = (socket as Partial<TLSSocket> | undefined)?.getPeerX509Certificate?.();
  return certificate === undefined ? undefined : holderOf(certificate);
}

function notExpected(place: string, holder: Holder | undefined, expected: KeyId | undefined): DcnrError {
  const holds = holder === undefined ? "shows no key of our kind" : `holds the key ${holder.keys.at(-1)}`;
  return new DcnrError(
    "unauthenticated",
    `${place} is not who it should be: it ${holds}${expected === undefined ? "" : `, expected is ${expected}`}`,
  );
}
