// One call over the simulated network: its request and its reply may each be lost, late or (the request) repeated, and
// what the caller is told of that is what a real connection would tell.

import { DcnrError, type ErrorCode } from "../../src/core/errors.ts";
import type { CallContext, Caller, CallOptions } from "../../src/protocol/network.ts";
import { withoutKey } from "../../src/protocol/routes/address.ts";
import { refused } from "../../src/protocol/streams/wire-errors.ts";
import type { Fabric, Listener, OpenCall } from "./network.ts";
import type { Host } from "./world.ts";

/** Who calls, and whom it shows itself as. */
export interface CallingEnd {
  readonly fabric: Fabric;
  readonly host: Host;
  readonly caller: Caller;
}

/** One request and one reply, each of which may be lost, late or (the request) repeated. */
export function exchange<Reply>(
  { fabric, host: caller, caller: shown }: CallingEnd,
  address: string,
  what: string,
  options: CallOptions,
  serve: (listener: Listener, context: CallContext) => Promise<Reply>,
): Promise<Reply> {
  const { wire, calls, listeners } = fabric;
  const listener = listeners.get(withoutKey(address));
  return new Promise<Reply>((resolve, reject) => {
    const gone = new AbortController();
    const cleanUps: (() => void)[] = [];
    const settle = (finish: () => void) => {
      for (const cleanUp of cleanUps) cleanUp();
      finish();
    };
    const refuse = (code: ErrorCode, reason: string, cause?: Error) => {
      settle(() => reject(new DcnrError(code, `${what} at ${address}: ${reason}`, { cause })));
      wire.world.time.after(wire.delayMs, () => listener?.host.receive(() => gone.abort()));
    };
    const breakAfter = (delayMs: number) =>
      cleanUps.push(caller.after(delayMs, () => refuse("unavailable", "the connection broke")));
    if (options.timeoutMs !== undefined)
      cleanUps.push(
        caller.after(options.timeoutMs, () => refuse("deadline_exceeded", `no answer within ${options.timeoutMs} ms`)),
      );
    const onAbort = () => refuse("cancelled", "the call was cancelled");
    if (options.signal?.aborted) return onAbort();
    if (options.signal) cleanUps.push(fabric.onAbort(options.signal, onAbort));
    if (listener === undefined) {
      caller.after(2 * wire.delayMs, () => refuse("unavailable", "nobody listens there", refusal()));
      return;
    }
    if (!isExpected(listener, address)) return refuse("unauthenticated", "somebody else answers there");
    const server = listener.host;
    // A router that does not know the connection lets it wait.
    if (fabric.isHidden(server, caller))
      return void cleanUps.push(caller.after(wire.stallMs, () => refuse("unavailable", "nothing gets through")));
    const open: OpenCall = { server, breakOff: (withinMs) => breakAfter(wire.chance.between(0, withinMs)) };
    calls.add(open);
    cleanUps.push(() => calls.delete(open));
    const context: CallContext = { signal: gone.signal, caller: shown, header: () => undefined };
    const answer = (finish: () => void) => {
      if (wire.strikes("replyLost", server, caller, what)) return breakAfter(wire.chance.between(10, wire.stallMs));
      wire.carry(
        server,
        caller,
        () => settle(finish),
        () => {},
      );
    };
    const arrive = () => {
      serve(listener, context).then(
        (reply) => answer(() => resolve(reply)),
        (error) => answer(() => reject(acrossTheWire(error))),
      );
    };
    const stalled = () => refuse("unavailable", "nothing got through");
    if (wire.strikes("loss", caller, server, what)) return void breakAfter(wire.chance.between(10, wire.stallMs));
    wire.carry(caller, server, arrive, stalled);
    if (wire.strikes("duplicate", caller, server, what)) wire.carry(caller, server, arrive, () => {});
    // A reply that a partition swallows is noticed when the caller's system gives the connection up.
    breakAfter(5 * wire.stallMs);
  });
}

/** What the other side sees of an error: its code, sentence and outlook, nothing else. */
export function acrossTheWire(error: unknown): DcnrError {
  const { code, message, outlook } = DcnrError.from(error);
  return new DcnrError(code, message, { outlook });
}

/** What the system says where nobody listens. */
export function refusal(): Error {
  return Object.assign(new Error(refused), { code: refused });
}

/** An address may name the key that has to answer. */
export function isExpected({ key }: Listener, address: string): boolean {
  const place = withoutKey(address);
  return place === address || address === `${place}#${key}`;
}
