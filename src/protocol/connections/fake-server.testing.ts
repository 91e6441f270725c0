// A server that speaks just enough HTTP/2, frame by frame, to misbehave at any moment of a connection's life.

import type { AddressInfo } from "node:net";
import { createServer, type Socket } from "node:net";

/** What has just happened; the server decides whether to go on as it should. */
export type Moment = "accepted" | "greeted" | "asked" | "pinged";

/** `ignore` leaves out one answer; after the others nothing more comes. */
export type Misdeed = "ignore" | "stall" | "close" | "reset";

const prefaceBytes = 24;
const headBytes = 9;
const frame = { data: 0, headers: 1, settings: 4, ping: 6 } as const;
const acknowledged = 1;
const endHeaders = 4;
/** ":status: 200" is the eighth entry of HPACK's static table. */
const status200 = Uint8Array.of(0x88);

export interface FakeServer {
  readonly address: string;
  /** Resolves when the moment has come for the n-th time, counted from 1. */
  seen(moment: Moment, times?: number): Promise<void>;
  count(moment: Moment): number;
  readonly connections: number;
  close(): void;
}

/** `misdeed` is asked at every moment of every connection, with how often that connection has come to it. */
export async function startFakeServer(
  misdeed: (moment: Moment, times: number, connection: number) => Misdeed | undefined,
): Promise<FakeServer> {
  const sockets: Socket[] = [];
  const counts = new Map<Moment, number>();
  let waiting: (() => void)[] = [];
  const server = createServer({ allowHalfOpen: true }, (socket) => {
    sockets.push(socket);
    serve(socket, sockets.length);
  });

  function serve(socket: Socket, connection: number): void {
    const own = new Map<Moment, number>();
    let stopped = false;
    /** True if it behaves. */
    const reach = (moment: Moment): boolean => {
      own.set(moment, (own.get(moment) ?? 0) + 1);
      counts.set(moment, (counts.get(moment) ?? 0) + 1);
      let behaves = !stopped;
      if (!stopped) {
        const deed = misdeed(moment, own.get(moment) as number, connection);
        behaves = deed === undefined;
        stopped = !behaves && deed !== "ignore";
        if (deed === "close") socket.end();
        if (deed === "reset") socket.resetAndDestroy();
      }
      for (const wake of waiting.splice(0)) wake();
      return behaves;
    };
    const write = (type: number, flags: number, stream: number, body: Uint8Array) => {
      const head = Buffer.alloc(headBytes);
      head.writeUIntBE(body.byteLength, 0, 3);
      head[3] = type;
      head[4] = flags;
      head.writeUInt32BE(stream, 5);
      socket.write(Buffer.concat([head, body]));
    };
    let bytes = Buffer.alloc(0);
    let greeted = false;
    socket.on("error", () => {});
    socket.on("data", (chunk: Buffer) => {
      bytes = Buffer.concat([bytes, chunk]);
      if (!greeted) {
        if (bytes.byteLength < prefaceBytes) return;
        bytes = bytes.subarray(prefaceBytes);
        greeted = true;
        if (reach("greeted")) write(frame.settings, 0, 0, new Uint8Array(0));
      }
      while (bytes.byteLength >= headBytes && bytes.byteLength >= headBytes + bytes.readUIntBE(0, 3)) {
        const length = bytes.readUIntBE(0, 3);
        const [type, flags] = [bytes[3] as number, bytes[4] as number];
        const stream = bytes.readUInt32BE(5);
        const body = bytes.subarray(headBytes, headBytes + length);
        bytes = bytes.subarray(headBytes + length);
        if (type === frame.settings && !(flags & acknowledged) && !stopped)
          write(frame.settings, acknowledged, 0, new Uint8Array(0));
        if (type === frame.headers && reach("asked")) write(frame.headers, endHeaders, stream, status200);
        if (type === frame.ping && !(flags & acknowledged) && reach("pinged")) write(frame.ping, acknowledged, 0, body);
      }
    });
    reach("accepted");
  }

  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  return {
    address: `127.0.0.1:${(server.address() as AddressInfo).port}`,
    get connections() {
      return sockets.length;
    },
    count: (moment) => counts.get(moment) ?? 0,
    seen: async (moment, times = 1) => {
      while ((counts.get(moment) ?? 0) < times) await new Promise<void>((wake) => waiting.push(wake));
    },
    close: () => {
      server.close();
      for (const socket of sockets) socket.destroy();
      waiting = [];
    },
  };
}
