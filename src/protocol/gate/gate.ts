// The gate of a PNode: the process that has the machine's key and its network, and computes nothing. The PNode proper, behind it, has
// neither: it asks here for connections, which are dialled, proved and encrypted as ever and handed over as plain bytes; whoever calls the machine
// is greeted here, and handed over with the key that it has proved. So whoever takes over the process that computes gets no key, and
// reaches nobody whom the owner's rules do not let it reach (docs/decisions/0016-what-a-pnodes-process-may-do.md).

import { createServer, type Server as NetServer } from "node:net";
import type { Duplex } from "node:stream";
import { fail, messageOf } from "../../core/errors.ts";
import { type Identity, keyIdOf } from "../../core/keys.ts";
import type { Log, Timers } from "../../core/world.ts";
import { within } from "../connections/deadline.ts";
import type { Guest } from "../server/guests.ts";
import type { GuestLimits } from "../server/limits.ts";
import { encodeRecord, RecordReader } from "../socket/records.ts";
import type { GateDialing, Proved } from "./gate-dialing.ts";
import { checkSignable, signedBytesMax } from "./gate-signing.ts";
import {
  type Answer,
  type Ask,
  askBytesMax,
  controlBytesMax,
  jsonOf,
  jsonRecord,
  readRecord,
  refusedBy,
  type Told,
  type Wanted,
} from "./gate-wire.ts";
import { drained, splice, spliceLine } from "./splice.ts";
import { type Given, Welcoming } from "./welcoming.ts";

export interface GateOptions {
  readonly timers: Timers;
  readonly log: Log;
  /** Where the PNode's process asks: a socket in a directory of its user's alone. */
  readonly path: string;
  /** What whoever asks has to know. */
  readonly token: string;
  readonly identity: Identity;
  readonly dialing: GateDialing;
  /** Where this machine is called, as its owner said. */
  readonly listen: string;
  readonly limits: GuestLimits;
  /** The port of the owner's page; absent: there is none. */
  readonly page?: number;
  /** What else may be asked for, by name. `say` tells the person meanwhile. */
  readonly requests: Readonly<Record<string, (given: unknown, say: (sentence: string) => void) => Promise<unknown>>>;
  /** The PNode's process is gone, or never came. */
  readonly onGone: () => void;
}

/** How long somebody who was let in waits for the PNode to take the connection. */
const takenMs = 10_000;
/** Between its start and the PNode's first word. */
const firstWordMs = 60_000;
/** Of the PNode, at once: far more than it has peers and transfers. */
const asksMax = 4_096;
/** Connections by which signatures are asked for: its main thread has one, and the thread that signs at once. */
const signersMax = 4;
/** Asked for over the control connection and not answered yet; traces are the longest by far. */
const requestsMax = 256;
const requestBytesMax = 4 * controlBytesMax;
/** Told and not taken yet: whoever takes so little does not read any more. */
const untakenBytesMax = 16 << 20;

interface PunchAsked {
  readonly place: string;
  readonly relay: string;
  readonly share: string;
}

export class Gate {
  readonly #options: GateOptions;
  readonly #asking: NetServer;
  readonly #welcoming: Welcoming;
  readonly #waiting = new Map<number, (socket: Duplex) => void>();
  readonly #provers = new Map<number, () => void>();
  #control: Duplex | undefined;
  readonly #acts: ReadonlyMap<string, (given: unknown) => Promise<unknown>>;
  #asks = 0;
  #signers = 0;
  #requests = 0;
  #requestBytes = 0;
  #tickets = 0;

  constructor(options: GateOptions) {
    const { timers, limits, log, dialing } = options;
    this.#options = options;
    this.#welcoming = new Welcoming({
      ...{ timers, limits, log, tls: dialing.tls },
      give: (one) => this.#give(one),
    });
    this.#acts = new Map<string, (given: unknown) => Promise<unknown>>([
      ["hello", async () => this.#hello()],
      ["serve", () => this.#welcoming.listen(options.listen)],
      ["page", () => this.#welcoming.openPage(options.page ?? fail("permission_denied", "the owner wants no page"))],
      ["punch", (address) => dialing.punching.punch(String(address))],
      ["answer punch", (given) => this.#answerPunch(given as PunchAsked)],
      ...Object.entries(options.requests).map(([name, act]): [string, (given: unknown) => Promise<unknown>] => [
        name,
        (given) => act(given, (sentence) => this.tell({ kind: "say", sentence })),
      ]),
    ]);
    this.#asking = createServer({ allowHalfOpen: false }, (socket) => this.hear(socket));
    // It is what the process is here for, and should not be ended by one connection's mistake.
    this.#asking.on("error", (error) => log("error", messageOf(error)));
  }

  async open(): Promise<void> {
    await new Promise<void>((resolve, reject) => {
      this.#asking.once("error", reject);
      this.#asking.listen(this.#options.path, () => resolve());
    });
    const late = within(this.#options.timers, firstWordMs, () => this.#control ?? this.#options.onGone());
    this.#asking.once("close", late);
  }

  close(): void {
    this.#asking.close();
    this.#welcoming.close();
    this.#control?.destroy();
    this.#options.dialing.close();
  }

  /** To the PNode. One that does not listen is gone: what it should have heard would fill the memory here. */
  tell(told: Told): void {
    if (this.#control === undefined) return;
    this.#control.write(jsonRecord(told));
    if (this.#control.writableLength > untakenBytesMax) this.#control.destroy();
  }

  // The PNode's side

  /** A connection of the PNode's; or of anybody who came to the socket, until it has said the word. */
  hear(socket: Guest): void {
    socket.on("error", () => socket.destroy());
    if (this.#asks >= asksMax) return void socket.destroy();
    this.#asks += 1;
    socket.once("close", () => {
      this.#asks -= 1;
    });
    const late = within(this.#options.timers, takenMs, () => socket.destroy());
    readRecord(socket, askBytesMax)
      .then(async (record) => {
        late();
        const ask = jsonOf<Ask>(record);
        if (ask.token !== this.#options.token) fail("unauthenticated", "whoever asks was not started with this gate");
        await this.#serve(ask, socket);
      })
      .catch((error: unknown) => {
        late();
        if (socket.destroyed) return;
        // Whoever was refused may not stay, and what it still says is not kept.
        socket.once(
          "close",
          within(this.#options.timers, takenMs, () => socket.destroy()),
        );
        socket.end(jsonRecord({ refused: refusedBy(error) } satisfies Answer));
        socket.resume();
      });
  }

  async #serve(ask: Ask, socket: Guest): Promise<void> {
    const { dialing, timers } = this.#options;
    const proven = ({ keys, socket: far }: Proved) => {
      if (socket.destroyed) return void far.destroy();
      socket.write(jsonRecord(keys === undefined ? {} : { keys }));
      splice(socket, far, timers);
    };
    switch (ask.ask) {
      case "control":
        return this.#listenTo(socket);
      case "sign":
        return this.#sign(socket);
      case "dial":
        return proven(await dialing.dial(String(ask.address), ask.nobody === true));
      case "web":
        return proven(await dialing.web(ask));
      case "line": {
        const left = new AbortController();
        socket.once("close", () => left.abort());
        const line = await dialing.line(String(ask.address), left.signal, ask.nobody === true);
        socket.write(jsonRecord({}));
        return spliceLine(line, socket);
      }
      case "carried": {
        Object.defineProperty(socket, "remoteAddress", { value: String(ask.from) });
        return this.#welcoming.welcome(socket);
      }
      case "take": {
        const waiting = this.#waiting.get(ask.ticket) ?? fail("not_found", "nobody waits by this ticket");
        this.#waiting.delete(ask.ticket);
        return waiting(socket);
      }
      default:
        return fail("unimplemented", "the gate does not know what is asked");
    }
  }

  /** One at a time; the gate ends with it. */
  async #listenTo(socket: Duplex): Promise<void> {
    if (this.#control !== undefined) fail("already_exists", "somebody else is behind this gate already");
    this.#control = socket;
    socket.once("close", () => this.#options.onGone());
    const reader = new RecordReader(socket[Symbol.asyncIterator]() as AsyncIterator<Uint8Array>);
    for (let record = await reader.next(controlBytesMax); record; record = await reader.next(controlBytesMax)) {
      const wanted = jsonOf<Wanted>(record);
      if (wanted.kind === "proved") {
        this.#provers.get(wanted.ticket)?.();
        this.#provers.delete(wanted.ticket);
      } else void this.#answer(wanted, record.byteLength);
    }
  }

  async #answer({ id, name, given }: Wanted & { kind: "request" }, bytes: number): Promise<void> {
    this.#requests += 1;
    this.#requestBytes += bytes;
    try {
      if (this.#requests > requestsMax || this.#requestBytes > requestBytesMax)
        fail("resource_exhausted", "the gate is asked for too much at once");
      const act = this.#acts.get(name) ?? fail("unimplemented", `the gate does nothing called ${name.slice(0, 40)}`);
      this.tell({ kind: "answer", id, result: await act(given) });
    } catch (error) {
      this.tell({ kind: "answer", id, refused: refusedBy(error) });
    } finally {
      this.#requests -= 1;
      this.#requestBytes -= bytes;
    }
  }

  #hello(): unknown {
    const { id, publicKey, former = [] } = this.#options.identity;
    const text = (bytes: Uint8Array) => Buffer.from(bytes).toString("base64");
    const words = former.map((word) => ({ publicKey: text(word.publicKey), signature: text(word.signature) }));
    return { id, key: keyIdOf(publicKey), publicKey: text(publicKey), former: words };
  }

  #answerPunch({ place, relay, share }: PunchAsked): Promise<string> {
    return this.#options.dialing.punching.answer(String(place), String(relay), String(share), (socket) =>
      this.#welcoming.welcome(socket),
    );
  }

  /** In the order in which they come, and no faster than they are taken. */
  async #sign(socket: Duplex): Promise<void> {
    if (this.#signers >= signersMax) fail("resource_exhausted", "enough connections ask for signatures already");
    this.#signers += 1;
    socket.once("close", () => {
      this.#signers -= 1;
    });
    const reader = new RecordReader(socket[Symbol.asyncIterator]() as AsyncIterator<Uint8Array>);
    for (let content = await reader.next(signedBytesMax); content; content = await reader.next(signedBytesMax)) {
      let signature = new Uint8Array(0);
      try {
        checkSignable(content);
        signature = Uint8Array.from(this.#options.identity.sign(content));
      } catch (error) {
        this.tell({ kind: "log", level: "warn", sentence: messageOf(error) });
      }
      if (!socket.write(encodeRecord(signature))) await drained(socket);
    }
  }

  #give({ as, caller, take, leave, proved, ends }: Given): void {
    if (this.#control === undefined) return void leave();
    const ticket = ++this.#tickets;
    const over = () => {
      late();
      this.#waiting.delete(ticket);
      this.#provers.delete(ticket);
    };
    const late = within(this.#options.timers, takenMs, () => {
      over();
      leave();
    });
    if (proved) this.#provers.set(ticket, proved);
    ends?.once("close", over);
    this.#waiting.set(ticket, (socket) => {
      late();
      socket.once("close", over);
      take(socket);
    });
    this.tell({ kind: "incoming", ticket, as, caller });
  }
}
