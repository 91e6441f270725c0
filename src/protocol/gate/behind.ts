// The network of a PNode that has none: all its connections are its gate's (gate.ts), which it asks over a local socket. HTTP/2, calls,
// streams, limits and rights are those of every other process; what is missing here is the key, TLS and everything that opens a socket to others.

import type { ClientRequestArgs } from "node:http";
import { connect, type Socket } from "node:net";
import { DcnrError, fail } from "../../core/errors.ts";
import type { KeyId } from "../../core/ids.ts";
import type { Log, Timers } from "../../core/world.ts";
import { limitsDefault } from "../connections/connection-limits.ts";
import { Connections } from "../connections/connections.ts";
import { PunchService } from "../gen/dcnr/v1/punch_pb.ts";
import { GrpcClient } from "../grpc-client.ts";
import { KeyBook } from "../identity/key-book.ts";
import { type Network, type Punches, service } from "../network.ts";
import { keyOf } from "../routes/address.ts";
import type { Line } from "../routes/line.ts";
import { LineSocket } from "../routes/line-socket.ts";
import { checkCarrier } from "../routes/punching.ts";
import { guestLimitsDefault } from "../server/limits.ts";
import { shareOf } from "../server/shares.ts";
import { Calling } from "../socket/calling.ts";
import { isBySocket } from "../socket/socket-lines.ts";
import { openStream } from "../streams/client-stream.ts";
import type { GateControl } from "./gate-control.ts";
import type { WebPlace } from "./gate-dialing.ts";
import { type Answer, type Ask, askBytesMax, errorOf, jsonOf, jsonRecord, readRecord } from "./gate-wire.ts";
import { recordLine, splice } from "./splice.ts";

export interface GatePlace {
  readonly path: string;
  readonly token: string;
}

type Asked = Ask extends infer One ? (One extends Ask ? Omit<One, "token"> : never) : never;

/** A connection to the gate that has said what it is for. */
export function askGate({ path, token }: GatePlace, asked: Asked): Socket {
  const socket = connect(path);
  socket.write(jsonRecord({ ...asked, token } as Ask));
  return socket;
}

/** The gate's answer, or its refusal as an error. */
async function answerOn(socket: Socket): Promise<{ readonly keys?: readonly KeyId[] }> {
  const answer = jsonOf<Answer>(await readRecord(socket, askBytesMax));
  if ("refused" in answer) throw errorOf(answer.refused);
  return answer;
}

/** One that looks as if it were being connected until the other end has proved its key. */
export function dialByGate(place: GatePlace, asked: Asked, judge: (keys: readonly KeyId[]) => void = () => {}): Socket {
  const socket = connect(place.path);
  const { emit } = socket;
  // Whoever waits for the connection hears of it when there is somebody at its other end.
  socket.emit = (event: string | symbol, ...given: unknown[]) => {
    if (event !== "connect") return Reflect.apply(emit, socket, [event, ...given]);
    socket.emit = emit;
    socket.write(jsonRecord({ ...asked, token: place.token } as Ask));
    answerOn(socket).then(
      ({ keys = [] }) => {
        try {
          judge(keys);
          socket.emit("connect");
        } catch (error) {
          socket.destroy(error as Error);
        }
      },
      (error: Error) => socket.destroy(error),
    );
    return true;
  };
  return socket;
}

export async function lineByGate(place: GatePlace, asked: Asked, signal: AbortSignal): Promise<Line> {
  const socket = askGate(place, asked);
  socket.on("error", () => socket.destroy());
  const left = () => void socket.destroy();
  signal.addEventListener("abort", left, { once: true });
  try {
    await answerOn(socket);
    return recordLine(socket);
  } catch (error) {
    socket.destroy();
    throw DcnrError.from(error, "unavailable");
  } finally {
    signal.removeEventListener("abort", left);
  }
}

/** For Node's requests to servers of blobs. */
export function gateConnection(gate: GatePlace, place: WebPlace): NonNullable<ClientRequestArgs["createConnection"]> {
  const { host, port, tls, key } = place;
  return (_options, created) => {
    const socket = dialByGate(gate, { ask: "web", host, port, tls, ...(key && { key }) });
    socket.once("connect", () => created(null, socket));
    socket.once("error", (error) => created(error, socket));
    return undefined;
  };
}

export interface BehindOptions extends GatePlace {
  readonly timers: Timers;
  readonly log: Log;
  /** Absent: it only calls others, as nobody. */
  readonly control?: GateControl;
  readonly keys?: KeyBook;
  readonly web: boolean;
}

export function openNetworkBehind(options: BehindOptions): Network {
  const { timers, log, control, web, keys = new KeyBook() } = options;
  const place: GatePlace = { path: options.path, token: options.token };
  const nobody = control === undefined;
  const limits = limitsDefault;
  const dial = (address: string) =>
    dialByGate(place, { ask: "dial", address, nobody }, (shown) => {
      // The gate has seen who answers; what this process was told of newer keys is judged here.
      const key = keyOf(address);
      if (key !== undefined && !keys.follows(key, shown))
        fail("unauthenticated", `who answers holds the key ${shown.at(-1)}, expected is ${key}`);
    });
  const connections = new Connections({ timers, limits, dial });
  const calling = new Calling({
    ...{ timers, limits },
    connect: (address, signal) => lineByGate(place, { ask: "line", address, nobody }, signal),
  });
  const client = new GrpcClient(
    (address, method, given, signal) =>
      isBySocket(address, web)
        ? calling.openStream(address, method, given, signal)
        : openStream(connections, address, method, given, signal),
    {},
    timers,
  );
  const punches: Punches | undefined = control && {
    stands: (address) => connections.stands(address),
    punch: async (address) => {
      if (connections.stands(address)) return;
      await control.request("punch", address);
      if (!connections.stands(address)) connections.adopt(address, dial(address));
    },
  };
  return {
    id: control?.identity.id,
    key: control?.identity.key,
    keys,
    call: (address, method, request, given) => client.call(address, method, request, given),
    watch: (address, method, request, given) => client.watch(address, method, request, given),
    open: (address, method, given) => client.open(address, method, given),
    ...(punches && !web && { punches }),
    serve: async (address, services, http, gate) => {
      if (control === undefined) fail("failed_precondition", "nobody can call whoever has no key");
      const { serveGrpc } = await import("../server/grpc-server.ts");
      return serveGrpc(address, [...services, ...(web ? [] : [punched(control)])], {
        ...{ http, gate, log, timers, tls: undefined, limits: guestLimitsDefault, plainFromAnywhere: true },
        ...{ allowedHosts: [], allowsPage: () => false },
        handed: control.handing(place, (line, from) => {
          const socket = askGate(place, { ask: "carried", from });
          splice(new LineSocket(line, from), socket, timers);
        }),
      });
    },
    close: async () => {
      calling.close();
      connections.close();
    },
  };
}

/** Ways through routers are made by the gate; who asked by whom is known here alone. */
function punched(control: GateControl) {
  return service(PunchService, {
    punch: async ({ place, relay }, { caller }) => {
      checkCarrier(caller, relay);
      const given = { place, relay, share: shareOf(caller.address) };
      return { place: String(await control.request("answer punch", given)) };
    },
  });
}
