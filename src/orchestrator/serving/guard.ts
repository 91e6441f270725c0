// Who may change things: reading is open, writing needs a key with the right scope unless the caller is local.
// PNodes are not guarded here; they prove themselves by their own secret.

import type { CallContext, ServedService } from "../../protocol/network.ts";
import type { ApiKeys, Scope } from "./keys.ts";

type AnyHandler = (request: unknown, context: CallContext) => unknown;

const reading = /^(get|list|watch|show)/;

/** `exceptions`: methods that need another scope, readers among them. */
export function guarded(
  served: ServedService,
  keys: ApiKeys,
  scope: Scope,
  exceptions: Readonly<Record<string, Scope>> = {},
): ServedService {
  const handlers = Object.fromEntries(
    Object.entries(served.handlers).map(([name, handler]) => {
      const needed = exceptions[name] ?? (reading.test(name) ? undefined : scope);
      return [name, needed ? checked(handler as AnyHandler, keys, needed, streams(served, name)) : handler];
    }),
  );
  return { descriptor: served.descriptor, handlers };
}

function streams(served: ServedService, name: string): boolean {
  return served.descriptor.methods.find((method) => method.localName === name)?.methodKind === "server_streaming";
}

function checked(handler: AnyHandler, keys: ApiKeys, scope: Scope, streaming: boolean): AnyHandler {
  const admit = (context: CallContext) => keys.require(scope, context.header("authorization"), context.caller.address);
  if (!streaming)
    return async (request, context) => {
      await admit(context);
      return handler(request, context);
    };
  return async function* (request, context) {
    await admit(context);
    yield* handler(request, context) as AsyncIterable<unknown>;
  };
}
