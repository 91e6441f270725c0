// One HTTP/2 connection to one address. Every phase of its life has a deadline, so nothing that is carried on it can
// wait for ever; when it breaks, everything on it fails at once with the same reason.

import { type ClientHttp2Session, type ClientHttp2Stream, connect, constants } from "node:http2";
import { connect as connectTcp, isIP } from "node:net";
import type { Duplex } from "node:stream";
import { connect as connectTls } from "node:tls";
import { DcnrError, fail } from "../../core/errors.ts";
import type { Cancel, Timers } from "../../core/world.ts";
import type { Tls } from "../identity/tls.ts";
import { windowBytes } from "../network.ts";
import { baseUrl, keyOf, parseAddress, withoutKey } from "../routes/address.ts";
import type { Line } from "../routes/line.ts";
import { LineSocket } from "../routes/line-socket.ts";
import type { Reach } from "../routes/reach.ts";
import { isPunched, isRelayed, parseRoute, type RelayedRoute, shownRoute } from "../routes/routes.ts";
import { brokenBy } from "../streams/wire-errors.ts";
import type { ConnectionLimits } from "./connection-limits.ts";
import { within } from "./deadline.ts";
import { Liveness } from "./liveness.ts";

/** HTTP/2 numbers the streams of a connection; one that has carried so many is replaced long before they run out. */
const streamsMax = 1 << 24;

export interface ConnectionOptions {
  readonly timers: Timers;
  readonly limits: ConnectionLimits;
  /** Instead of the operating system's sockets. */
  readonly dial?: ((address: string) => Duplex) | undefined;
  /** For addresses that name a key. */
  readonly tls?: Tls | undefined;
  /** For routes through relays. */
  readonly through?: ((route: RelayedRoute) => Line) | undefined;
  /** What may be connected to; everything if absent. */
  readonly reach?: Reach | undefined;
}

export interface StreamRequest {
  readonly headers: Readonly<Record<string, string>>;
  /** Whether an answer has to begin within `answerMs`; if not, the caller has a deadline of its own. */
  readonly answersAtOnce: boolean;
  /** Told once if the stream or its connection fails; the stream is over then. */
  readonly failed: (failure: DcnrError) => void;
}

interface Carried extends Pick<StreamRequest, "answersAtOnce" | "failed"> {
  deadline: Cancel;
  /** How much had come on the connection when it was opened. */
  readonly heardBytes: number;
}

export class Connection {
  /** For people. */
  readonly #address: string;
  readonly #timers: Timers;
  readonly #limits: ConnectionLimits;
  readonly #ended: () => void;
  readonly #session: ClientHttp2Session;
  readonly #streams = new Map<ClientHttp2Stream, Carried>();
  readonly #liveness: Liveness;
  /** Of the phase before streams flow; of idleness after that. */
  #deadline: Cancel = () => {};
  #greeted = false;
  /** Idle for so long that the other end may be gone by now. */
  #stale = false;
  #opened = 0;
  #retired = false;
  #over = false;

  /** `ended` is called once, when it carries nothing any more. */
  constructor(address: string, options: ConnectionOptions, ended: () => void) {
    const { timers, limits } = options;
    const place = shownRoute(address);
    this.#address = place;
    this.#timers = timers;
    this.#limits = limits;
    this.#ended = ended;
    const session = connect(isRelayed(address) ? carriedUrl : baseUrl(address), {
      settings: { initialWindowSize: windowBytes, enablePush: false },
      ...socketTo(address, options),
    });
    this.#session = session;
    const open = { [Symbol.iterator]: () => this.#streams.keys() };
    this.#liveness = new Liveness(session, open, timers, limits, () => this.#late("answers no ping", limits.pingMs));
    this.#await(limits.connectMs, "cannot be connected to");
    session.on("connect", () => this.#connected());
    session.once("remoteSettings", () => this.#ready());
    session.on("goaway", () => this.#retire());
    session.on("error", (error) => this.#fail(brokenBy(error, place)));
    session.on("close", () => this.#fail(new DcnrError("unavailable", `${place} closed the connection`)));
  }

  /** Whether it takes new streams. */
  get isOpen(): boolean {
    return !this.#over && !this.#retired && !this.#session.closed && !this.#session.destroyed;
  }

  /** May be written to at once: what is written goes out as soon as the connection stands. */
  open({ headers, answersAtOnce, failed }: StreamRequest): ClientHttp2Stream {
    const stream = this.#session.request({ ":method": "POST", ...headers });
    const carried: Carried = { answersAtOnce, failed, deadline: () => {}, heardBytes: this.#heardBytes() };
    this.#streams.set(stream, carried);
    if (++this.#opened === streamsMax) this.#retired = true;
    if (this.#streams.size === 1) this.#busy();
    if (this.#greeted) this.#expectAnswer(stream, carried);
    stream.on("response", () => carried.deadline());
    stream.on("error", () => {});
    stream.on("close", () => {
      carried.deadline();
      this.#streams.delete(stream);
      // Somebody gave up on it before anything came at all: whoever tries again should not meet the same silence. What
      // is still open here may go on; the next ping tells.
      if (this.#greeted && this.#heardBytes() === carried.heardBytes) this.#retired = true;
      if (this.#streams.size === 0) this.#idle();
    });
    return stream;
  }

  #heardBytes(): number {
    return this.#session.destroyed ? 0 : (this.#session.socket?.bytesRead ?? 0);
  }

  #expectAnswer(stream: ClientHttp2Stream, carried: Carried): void {
    if (!carried.answersAtOnce) return;
    const { answerMs } = this.#limits;
    carried.deadline = within(this.#timers, answerMs, () => {
      carried.failed(new DcnrError("unavailable", `${this.#address} does not answer a stream within ${answerMs} ms`));
      stream.close(constants.NGHTTP2_CANCEL);
    });
  }

  close(): void {
    this.#fail(new DcnrError("cancelled", `the connection to ${this.#address} was closed by this process`));
  }

  #connected(): void {
    // Node tells of it even after the session was destroyed.
    if (this.#over) return;
    this.#session.setLocalWindowSize(windowBytes);
    if (this.#greeted) return;
    this.#await(this.#limits.helloMs, "accepts connections and says nothing");
  }

  #ready(): void {
    this.#greeted = true;
    this.#deadline();
    if (this.#streams.size === 0) this.#idle();
    else this.#liveness.start();
    for (const [stream, carried] of this.#streams) this.#expectAnswer(stream, carried);
  }

  #busy(): void {
    this.#session.ref();
    if (!this.#greeted) return;
    this.#deadline();
    if (this.#stale) this.#liveness.ask();
    else this.#liveness.start();
    this.#stale = false;
  }

  #idle(): void {
    if (this.#over) return;
    this.#session.unref();
    this.#liveness.stop();
    if (this.#retired) this.close();
    if (this.#over || !this.#greeted) return;
    const { quietMs, idleMs } = this.#limits;
    this.#deadline = within(this.#timers, quietMs, () => {
      this.#stale = true;
      this.#deadline = within(this.#timers, Math.max(0, idleMs - quietMs), () => this.close());
    });
  }

  /** The other end wants no new streams; those that are open may end. */
  #retire(): void {
    this.#retired = true;
    if (this.#streams.size === 0) this.close();
  }

  #await(limitMs: number, what: string): void {
    this.#deadline();
    this.#deadline = within(this.#timers, limitMs, () => this.#late(what, limitMs));
  }

  #late(what: string, limitMs: number): void {
    this.#fail(new DcnrError("unavailable", `${this.#address} ${what} (waited ${limitMs} ms)`));
  }

  #fail(failure: DcnrError): void {
    if (this.#over) return;
    this.#over = true;
    this.#deadline();
    this.#liveness.stop();
    this.#ended();
    for (const { failed, deadline } of [...this.#streams.values()]) {
      deadline();
      failed(failure);
    }
    this.#session.destroy();
  }
}

/** Servers look at the host that is asked for because of browsers, which speak on no line. */
const carriedUrl = "http://127.0.0.1";

/** How an address is connected to. Undefined leaves it to the library: a plain socket, or TLS as the web has it. */
export function socketTo(
  address: string,
  { dial, tls, through, reach }: ConnectionOptions,
): { createConnection: () => Duplex } | undefined {
  // Made before anybody asks for a connection there.
  if (isPunched(address) && dial !== undefined) return { createConnection: () => dial(address) };
  // Where nothing is told of relays, whoever dials knows all ways.
  if (isRelayed(address) && (dial === undefined || through !== undefined)) {
    const route = parseRoute(withoutKey(address));
    const key = keyOf(address);
    if (route.kind !== "relayed" || tls === undefined || through === undefined || key === undefined)
      fail(
        "failed_precondition",
        `${address} leads through a relay: only who knows the key that answers may call there`,
      );
    return {
      createConnection: () => tls.over(new LineSocket(through(route), route.address), shownRoute(address), key),
    };
  }
  if (dial !== undefined) return { createConnection: () => dial(address) };
  const place = parseAddress(address);
  const { host, port, key, secure } = place;
  reach?.check(host);
  if (key !== undefined) {
    if (tls === undefined)
      fail("failed_precondition", `${address} names a key, and this process speaks plain text only`);
    return { createConnection: () => tls.dial(place, reach?.lookup) };
  }
  if (reach === undefined) return undefined;
  const { lookup } = reach;
  const names = isIP(host) === 0 ? { servername: host } : {};
  return {
    createConnection: () =>
      secure
        ? connectTls({ host, port, lookup, ALPNProtocols: ["h2"], ...names })
        : connectTcp({ host, port, lookup }).setNoDelay(true),
  };
}
