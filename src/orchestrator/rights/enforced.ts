// What the contract says of a method beyond who may call it (access.proto), around every handler: keys that are limited to
// some networks or to their owner's things open nothing else, and administrative acts are written down.

import { type DescMessage, type DescMethod, getOption } from "@bufbuild/protobuf";
import { assert } from "../../core/assert.ts";
import { type Access, access, Subject } from "../../protocol/gen/dcnr/v1/access_pb.ts";
import type { CallContext, Roles, ServedService } from "../../protocol/network.ts";
import type { Mirror } from "../records/mirror.ts";
import type { Acts } from "./acts.ts";
import { belongingOf } from "./belongings.ts";
import { checkBelonging, checkMethod, isLimited } from "./limits.ts";

type Handler = (request: unknown, context: CallContext) => unknown;

export function enforced(services: readonly ServedService[], mirror: Mirror, acts: Acts): readonly ServedService[] {
  return services.map(({ descriptor, handlers }) => ({
    descriptor,
    handlers: Object.fromEntries(
      descriptor.methods.map((method) => [
        method.localName,
        around(method, handlers[method.localName] as Handler, mirror, acts),
      ]),
    ),
  }));
}

function around(method: DescMethod, handler: Handler, mirror: Mirror, acts: Acts): Handler {
  const rules = getOption(method, access);
  const { act, namedBy, alsoNamedBy } = rules;
  const nameOf = fieldReader(method.input, namedBy);
  const otherNameOf = fieldReader(method.input, alsoNamedBy);
  const check = async (roles: Roles | undefined, request: unknown) => {
    if (!isLimited(roles)) return;
    checkMethod(roles, rules, method.name);
    await checkSubject(mirror, roles, rules, nameOf(request));
    const other = otherNameOf(request);
    const belonging = other === "" ? undefined : await belongingOf(mirror, Subject.SOURCE, other);
    if (belonging) checkBelonging(roles, belonging, other);
  };
  if (method.methodKind === "bidi_streaming") return handler;
  if (method.methodKind === "server_streaming")
    return async function* (request, context) {
      await check(context.caller.roles, request);
      yield* handler(request, context) as AsyncIterable<unknown>;
    };
  return async (request, context) => {
    // What is refused is no act: whoever has a limited key could fill the log.
    await check(context.caller.roles, request);
    const run = async () => handler(request, context);
    return act ? acts.log(method.name, nameOf(request), context.caller, run) : run();
  };
}

async function checkSubject(mirror: Mirror, roles: Roles, { subject, makes }: Access, name: string): Promise<void> {
  if (subject === Subject.UNSPECIFIED) return;
  const belonging = await belongingOf(mirror, subject, name);
  // What is not there the handler refuses by itself.
  if (belonging === undefined) return;
  // Whoever makes something of another's thing may, as long as it is within the key's networks: the new one is its own.
  const { ownOnly: _, ...networksOnly } = roles;
  checkBelonging(makes ? networksOnly : roles, belonging, name || "what has no name");
}

/** Of a message's field by its name in the contract, or of a message within ("settings.network"). Wrong names show at the start. */
function fieldReader(message: DescMessage, path: string): (request: unknown) => string {
  if (path === "") return () => "";
  const [first, ...rest] = path.split(".");
  const field = message.fields.find(({ name }) => name === first);
  assert(field !== undefined, `${message.name} has no field ${first}`);
  // Of what is named one by one, the handler looks at each.
  if (field.fieldKind === "list") return () => "";
  const readField = (request: unknown) => (request as Readonly<Record<string, unknown>>)[field.localName];
  if (rest.length > 0) {
    assert(field.message !== undefined, `${message.name}.${first} is no message`);
    const inner = fieldReader(field.message, rest.join("."));
    return (request) => (readField(request) === undefined ? "" : inner(readField(request)));
  }
  const names = field.fieldKind === "enum" ? field.enum : undefined;
  return (request) => {
    const value = readField(request);
    return names ? (names.value[value as number]?.name ?? String(value)) : String(value ?? "");
  };
}
