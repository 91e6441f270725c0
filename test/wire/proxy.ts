// A TCP proxy between real processes that misbehaves as networks do: it stalls, closes, resets or half-opens
// connections, at a chosen moment of their life and in a chosen direction.

import { type AddressInfo, connect, createServer, type Server, type Socket } from "node:net";

/** `half-open`: one end hears that the connection is gone, the other hears nothing, then or later. */
export const kinds = ["stall", "close", "reset", "half-open"] as const;
/** `there` is from the caller to the server. */
export const directions = ["there", "back"] as const;
/** Before the server is called; at the first, second and third piece that would pass; once much has passed. */
export const phases = ["connect", "hello", "open", "answer", "flow"] as const;

export interface Fault {
  readonly kind: (typeof kinds)[number];
  readonly direction: (typeof directions)[number];
  readonly phase: (typeof phases)[number];
}

const piecesBefore = { hello: 0, open: 1, answer: 2 } as const;
/** A stream is in full flow once so much has passed one way. */
const flowBytes = 8 << 10;

export class FaultyProxy {
  readonly #port: number;
  readonly #sockets = new Set<Socket>();
  readonly #wires = new Set<Wire>();
  #server: Server | undefined;
  #armed: Fault | undefined;
  address = "";
  /** How many faults have come to pass. */
  struck = 0;

  constructor(port: number) {
    this.#port = port;
  }

  async start(): Promise<void> {
    const server = createServer({ allowHalfOpen: true }, (near) => this.#accept(near));
    this.#server = server;
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
    this.address = `127.0.0.1:${(server.address() as AddressInfo).port}`;
  }

  /** The next connection fails so. */
  arm(fault: Fault): void {
    this.#armed = fault;
  }

  /** Every connection that stands fails so, at once. */
  strike(kind: Fault["kind"], direction: Fault["direction"]): void {
    for (const wire of [...this.#wires]) this.#fail(wire, kind, direction);
  }

  close(): void {
    this.#server?.close();
    for (const socket of this.#sockets) socket.destroy();
  }

  #accept(near: Socket): void {
    const fault = this.#armed;
    this.#armed = undefined;
    this.#keep(near);
    if (fault?.phase === "connect" && fault.kind !== "half-open") {
      this.struck++;
      if (fault.kind === "close") near.end();
      if (fault.kind === "reset") near.resetAndDestroy();
      return;
    }
    const far = connect({ port: this.#port, host: "127.0.0.1", allowHalfOpen: true });
    this.#keep(far);
    const wire: Wire = { near, far, dead: false };
    this.#wires.add(wire);
    this.#carry(wire, near, far, fault?.direction === "there" ? fault : undefined);
    this.#carry(wire, far, near, fault?.direction === "back" ? fault : undefined);
    if (fault?.phase === "connect") this.#fail(wire, fault.kind, fault.direction);
  }

  #carry(wire: Wire, from: Socket, to: Socket, fault: Fault | undefined): void {
    let [pieces, bytes] = [0, 0];
    from.on("data", (piece) => {
      if (wire.dead) return;
      const isTime =
        fault !== undefined &&
        fault.phase !== "connect" &&
        (fault.phase === "flow" ? bytes > flowBytes : pieces === piecesBefore[fault.phase]);
      pieces++;
      bytes += piece.length;
      if (isTime) return this.#fail(wire, fault.kind, fault.direction);
      if (!to.write(piece)) {
        from.pause();
        to.once("drain", () => from.resume());
      }
    });
    from.on("end", () => !wire.dead && to.end());
    from.on("close", () => {
      if (wire.dead) return;
      this.#wires.delete(wire);
      to.destroy();
    });
  }

  #fail(wire: Wire, kind: Fault["kind"], direction: Fault["direction"]): void {
    const { near, far } = wire;
    if (wire.dead) return;
    this.struck++;
    this.#wires.delete(wire);
    const [from, to] = direction === "there" ? [near, far] : [far, near];
    switch (kind) {
      case "stall":
        // The other direction still carries what is said, and nobody learns that this one does not.
        from.removeAllListeners("data");
        from.removeAllListeners("end");
        from.pause();
        break;
      case "close":
        to.end();
        from.removeAllListeners("data");
        from.resume();
        break;
      case "reset":
        wire.dead = true;
        near.resetAndDestroy();
        far.resetAndDestroy();
        break;
      case "half-open":
        wire.dead = true;
        to.resetAndDestroy();
        break;
    }
  }

  #keep(socket: Socket): void {
    this.#sockets.add(socket);
    socket.setNoDelay(true);
    socket.on("error", () => {});
    socket.once("close", () => this.#sockets.delete(socket));
  }
}

interface Wire {
  readonly near: Socket;
  readonly far: Socket;
  /** Nothing passes any more, not even that somebody closed. */
  dead: boolean;
}
