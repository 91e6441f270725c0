// The answering end of calls on a socket. Whoever calls is known before anything that it sends is read, and has to keep
// within the same limits as on any other connection. Runs in browsers too, where nothing else can answer.

import type { DescMethod } from "@bufbuild/protobuf";
import { DcnrError } from "../../core/errors.ts";
import type { Cancel, Log, Timers } from "../../core/world.ts";
import { within } from "../connections/deadline.ts";
import { AccessRules } from "../identity/access.ts";
import type { CallContext, Caller, Gate, ServedService } from "../network.ts";
import type { Line } from "../routes/line.ts";
import { Desk, tooMuch, type Visit } from "../server/desk.ts";
import type { GuestLimits } from "../server/limits.ts";
import { answerCall } from "../streams/answer-call.ts";
import { Pipe } from "../streams/pipe.ts";
import { statusOf } from "../streams/wire-errors.ts";
import type { CarriedStream } from "./carried-stream.ts";
import { Carrier } from "./carrier.ts";
import { type CallHead, decodeHead, encodeStatus } from "./socket-frames.ts";

export interface AnsweringOptions {
  readonly timers: Timers;
  readonly limits: GuestLimits;
  readonly log: Log;
  readonly gate: Gate | undefined;
  /** Shared with whatever else the process answers by; its own if absent. */
  readonly desk?: Desk;
}

const succeeded = encodeStatus({ code: 0, message: "", outlook: "" });
/** gRPC writes how long a caller waits as digits and a unit; ours are milliseconds. */
const timeoutPattern = /^(\d{1,8})m$/;

export class Answering {
  readonly #options: AnsweringOptions;
  readonly #rules: AccessRules;
  readonly #handlers = new Map<string, unknown>();
  readonly #desk: Desk;
  readonly #carriers = new Set<Carrier>();

  constructor(services: readonly ServedService[], options: AnsweringOptions) {
    this.#options = options;
    this.#rules = new AccessRules(services, options.gate);
    this.#desk = options.desk ?? new Desk(options.timers, options.limits);
    for (const { descriptor, handlers } of services)
      for (const method of descriptor.methods)
        this.#handlers.set(`/${descriptor.typeName}/${method.name}`, handlers[method.localName]);
  }

  /** Until the line ends. `proved` is called when the first call is let in. */
  serve(line: Line, caller: Caller, proved: () => void = () => {}): void {
    const { timers, limits } = this.#options;
    let idle: Cancel = within(timers, limits.headersMs, () => carrier.close());
    let calls = 0;
    const began = () => {
      idle();
      calls++;
    };
    const ended = () => {
      if (--calls > 0 || carrier.isOver) return;
      idle = within(timers, limits.idleMs, () => carrier.close());
    };
    const carrier: Carrier = new Carrier(line, {
      timers,
      limits,
      called: (stream, head) => {
        began();
        this.#called(carrier, stream, head, caller, proved).finally(ended);
      },
      over: () => {
        idle();
        this.#carriers.delete(carrier);
      },
    });
    this.#carriers.add(carrier);
  }

  close(): void {
    for (const carrier of [...this.#carriers]) carrier.close();
  }

  /** Resolves when nobody works for the call any more. */
  async #called(carrier: Carrier, stream: CarriedStream, opening: Uint8Array, caller: Caller, proved: () => void) {
    const { limits } = this.#options;
    let visit: Visit | undefined;
    let method: DescMethod | undefined;
    // Before it is known whether the call is let in, a little of it may have come.
    const early: Uint8Array[] = [];
    let left = false;
    let finished = false;
    const leave = () => {
      left = true;
    };
    stream.listener = {
      data: (bytes) => void early.push(bytes),
      drained: () => {},
      finished: () => {
        finished = true;
      },
      ended: leave,
      broken: leave,
    };
    try {
      if (carrier.streams > limits.streamsPerConnection) throw tooMuch("too many calls are open on this socket");
      const head = decodeHead(opening, { bytesMax: limits.headerBytesMax, countMax: limits.headerCountMax });
      method = this.#rules.methodAt(head.path);
      if (method === undefined) throw new DcnrError("unimplemented", `nothing is called ${head.path.slice(0, 100)}`);
      visit = this.#desk.enter(caller, head.path);
      const admitted = await this.#rules.admit(method, caller, head.headers.authorization);
      visit.countFor(admitted.id);
      visit.countFor(admitted.roles?.key);
      if (left) return;
      proved();
      await this.#answer({ carrier, stream, head, method, visit, caller: admitted, early, finished });
    } catch (error) {
      this.#end(carrier, stream, method, error);
    } finally {
      visit?.leave();
    }
  }

  async #answer(call: Admitted): Promise<void> {
    const { timers, limits } = this.#options;
    const { carrier, stream, head, method, visit, caller, early } = call;
    const gone = new AbortController();
    const pipe = new Pipe(method.input, method.output, () => stream.resume(), visit.hold);
    const late = this.#deadline(head, () => gone.abort());
    // The message of a call has so long to be here; streams take as long as they take.
    const slow =
      method.methodKind === "unary"
        ? within(timers, limits.callMs, () =>
            pipe.end(new DcnrError("deadline_exceeded", "the request took too long to come")),
          )
        : () => {};
    stream.listener = {
      data: (bytes) => pipe.push(bytes),
      drained: () => pipe.drained(),
      finished: () => {
        slow();
        pipe.endReading();
      },
      ended: () => {
        gone.abort();
        pipe.end(callerGone());
      },
      broken: () => {
        gone.abort();
        pipe.end(callerGone());
      },
    };
    pipe.attach(stream);
    carrier.begin(stream);
    for (const bytes of early.splice(0)) pipe.push(bytes);
    if (call.finished) stream.listener.finished?.();
    const context: CallContext = { signal: gone.signal, caller, header: (name) => head.headers[name] };
    const close = () => {
      carrier.end(stream, succeeded);
      pipe.end();
    };
    try {
      await answerCall(method, this.#handlers.get(head.path), pipe, context, close);
      carrier.end(stream, succeeded);
    } catch (error) {
      this.#end(carrier, stream, method, error);
    } finally {
      late();
      slow();
      pipe.end();
    }
  }

  #deadline({ headers }: CallHead, late: () => void): Cancel {
    const [, timeoutMs] = timeoutPattern.exec(headers["grpc-timeout"] ?? "") ?? [];
    return timeoutMs === undefined ? () => {} : within(this.#options.timers, Number(timeoutMs), late);
  }

  /** What the caller may know of a failure; the log gets the rest. */
  #end(carrier: Carrier, stream: CarriedStream, method: DescMethod | undefined, error: unknown): void {
    if (!(error instanceof DcnrError)) {
      const what = error instanceof Error ? (error.stack ?? error.message) : String(error);
      this.#options.log("error", `${method?.parent.name}/${method?.name} failed: ${what}`);
    }
    carrier.end(stream, encodeStatus(statusOf(error)));
  }
}

interface Admitted {
  readonly carrier: Carrier;
  readonly stream: CarriedStream;
  readonly head: CallHead;
  readonly method: DescMethod;
  readonly visit: Visit;
  readonly caller: Caller;
  /** What came before the call was let in, and whether that is all. */
  readonly early: Uint8Array[];
  readonly finished: boolean;
}

function callerGone(): DcnrError {
  return new DcnrError("cancelled", "the caller went away");
}
