// Who may call a method, as the contract says (access.proto), asked in one place before anything of the request is read.
// What the roles mean in a process, its gate knows; without a gate everything is open, as in tests of the wire itself.

import { type DescMethod, getOption } from "@bufbuild/protobuf";
import { DcnrError, fail } from "../core/errors.ts";
import { access, Rule, Scope } from "./gen/dcnr/v1/access_pb.ts";
import type { CallContext, Caller, Gate, KeyScope, ServedService } from "./network.ts";

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

  async admit(method: DescMethod, caller: Caller, authorization: string | undefined): Promise<void> {
    const gate = this.#gate;
    if (gate === undefined || openServices.has(method.parent.typeName)) return;
    const { rule, scope } = getOption(method, access);
    switch (rule) {
      case Rule.OPEN:
        return;
      case Rule.KEY:
        return gate.key(caller, named(scope, method), authorization);
      case Rule.SELF:
        if (caller.id === undefined) throw noKey(method);
        return;
      case Rule.MEMBER:
      case Rule.OWNER:
        if (caller.id === undefined) throw noKey(method);
        return gate.member(caller);
      case Rule.ORCHESTRATOR:
        return gate.orchestrator(caller);
      default:
        return fail("permission_denied", `${method.parent.name}/${method.name} is closed`);
    }
  }
}

/** What an API key must allow for the method; undefined where the contract asks for none. */
export function keyScopeOf(method: DescMethod): KeyScope | undefined {
  const { rule, scope } = getOption(method, access);
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
  const admit = ({ caller, header }: CallContext) => rules.admit(method, caller, header("authorization"));
  if (method.methodKind === "server_streaming")
    return async function* (request, context) {
      await admit(context);
      yield* handler(request, context) as AsyncIterable<unknown>;
    };
  return async (first, context) => {
    await admit(context);
    return handler(first, context);
  };
}
