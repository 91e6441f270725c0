// Who may call a method, as the contract says (access.proto), asked in one place before anything of the request is read.
// What the roles mean in a process, its gate knows; without a gate everything is open, as in tests of the wire itself.

import { type DescMethod, getOption } from "@bufbuild/protobuf";
import { DcnrError, fail, hasCode } from "../../core/errors.ts";
import { type Access, access, Rule, Scope } from "../gen/dcnr/v1/access_pb.ts";
import type { CallContext, Caller, Gate, KeyScope, ServedService } from "../network.ts";

/** The health service's contract is gRPC's and cannot carry our rules; it tells nothing but "serving". */
const openServices: ReadonlySet<string> = new Set(["grpc.health.v1.Health"]);

/** By path, so that a request can be judged by its first line. */
export class AccessRules {
  readonly #methods = new Map<string, DescMethod>();
  readonly #gate: Gate | undefined;

  constructor(services: readonly ServedService[], gate: Gate | undefined) {
    this.#gate = gate;
    for (const { descriptor } of services)
      for (const method of descriptor.methods) this.#methods.set(`/${descriptor.typeName}/${method.name}`, method);
  }

  /** Undefined for paths that are no method: those are plain HTTP, which has rules of its own. */
  methodAt(path: string): DescMethod | undefined {
    return this.#methods.get(path.split("?", 1)[0] as string);
  }

  /** The caller as the handler should know it, or a refusal. */
  async admit(method: DescMethod, connected: Caller, authorization: string | undefined): Promise<Caller> {
    const gate = this.#gate;
    if (gate === undefined || openServices.has(method.parent.typeName)) return connected;
    const { rule, scope } = accessOf(method);
    const caller = await identified(gate, connected, authorization, rule === Rule.OPEN);
    switch (rule) {
      case Rule.OPEN:
        return caller;
      case Rule.KEY:
        return { ...caller, roles: await gate.key(caller, named(scope, method), authorization) };
      case Rule.SELF:
        if (caller.id === undefined) throw noKey(method);
        return caller;
      case Rule.MEMBER:
      case Rule.OWNER:
        if (caller.id === undefined) throw noKey(method);
        await gate.member(caller);
        return caller;
      case Rule.NETWORK:
        if (caller.id === undefined) throw noKey(method);
        await gate.network(caller);
        return caller;
      case Rule.ORCHESTRATOR:
        await gate.orchestrator(caller);
        return caller;
      default:
        return fail("permission_denied", `${method.parent.name}/${method.name} is closed`);
    }
  }
}

/** An option of a method is parsed anew each time it is read, which is too often for one that every call asks for. */
const accessByMethod = new WeakMap<DescMethod, Access>();

function accessOf(method: DescMethod): Access {
  const known = accessByMethod.get(method);
  if (known !== undefined) return known;
  const parsed = getOption(method, access);
  accessByMethod.set(method, parsed);
  return parsed;
}

/** What is open to all is open to those, too, whose key or token is no longer good: as to nobody. */
async function identified(
  gate: Gate,
  caller: Caller,
  authorization: string | undefined,
  isOpen: boolean,
): Promise<Caller> {
  if (gate.identify === undefined) return caller;
  if (!isOpen) return gate.identify(caller, authorization);
  return gate.identify(caller, authorization).catch((error: unknown) => {
    if (hasCode(error, "unauthenticated")) return { address: caller.address };
    throw error;
  });
}

/** What an API key must allow for the method; undefined where the contract asks for none. */
export function keyScopeOf(method: DescMethod): KeyScope | undefined {
  const { rule, scope } = accessOf(method);
  return rule === Rule.KEY ? named(scope, method) : undefined;
}

function named(scope: Scope, { name }: DescMethod): KeyScope {
  switch (scope) {
    case Scope.GENERATE:
      return "generate";
    case Scope.READ:
      return "read";
    case Scope.TRAIN:
      return "train";
    case Scope.ADMIN:
      return "admin";
    default:
      return fail("permission_denied", `${name} is closed`);
  }
}

function noKey({ name }: DescMethod): DcnrError {
  return new DcnrError("unauthenticated", `${name} is for machines that show a key: call over an encrypted connection`);
}

type AnyHandler = (first: unknown, context: CallContext) => unknown;

/** The same services behind the gate, for networks in memory, where a request is never read before it is judged. */
export function gated(services: readonly ServedService[], gate: Gate | undefined): readonly ServedService[] {
  if (gate === undefined) return services;
  const rules = new AccessRules(services, gate);
  return services.map(({ descriptor, handlers }) => ({
    descriptor,
    handlers: Object.fromEntries(
      descriptor.methods.map((method) => [
        method.localName,
        behind(rules, method, handlers[method.localName] as AnyHandler),
      ]),
    ),
  }));
}

function behind(rules: AccessRules, method: DescMethod, handler: AnyHandler): AnyHandler {
  const admitted = async (context: CallContext): Promise<CallContext> => {
    const caller = await rules.admit(method, context.caller, context.header("authorization"));
    return { ...context, caller, header: (name) => context.header(name) };
  };
  if (method.methodKind === "server_streaming")
    return async function* (request, context) {
      yield* handler(request, await admitted(context)) as AsyncIterable<unknown>;
    };
  return async (first, context) => handler(first, await admitted(context));
}
