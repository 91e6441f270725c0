// API keys where the contract asks for them: every method says itself which scope it needs (access.proto), whatever it is
// called. Rules about machines are not judged here.

import type { DescMethod } from "@bufbuild/protobuf";
import { keyScopeOf } from "../../protocol/access.ts";
import type { CallContext, ServedService } from "../../protocol/network.ts";
import type { ApiKeys, Scope } from "./keys.ts";

type AnyHandler = (request: unknown, context: CallContext) => unknown;

export function guarded({ descriptor, handlers }: ServedService, keys: ApiKeys): ServedService {
  const checkedByName = descriptor.methods.map((method) => {
    const handler = handlers[method.localName] as AnyHandler;
    const scope = keyScopeOf(method);
    return [method.localName, scope === undefined ? handler : checked(handler, keys, scope, method)] as const;
  });
  return { descriptor, handlers: Object.fromEntries(checkedByName) };
}

function checked(handler: AnyHandler, keys: ApiKeys, scope: Scope, { methodKind }: DescMethod): AnyHandler {
  const admit = (context: CallContext) => keys.require(scope, context.header("authorization"), context.caller.address);
  if (methodKind !== "server_streaming")
    return async (request, context) => {
      await admit(context);
      return handler(request, context);
    };
  return async function* (request, context) {
    await admit(context);
    yield* handler(request, context) as AsyncIterable<unknown>;
  };
}
