// Messages of any type of the contract, drawn from a seed: half of their texts, hashes and numbers are ones that the
// network knows, so that they get past the first check; or messages that were really sent, with a value or two changed.

import { clone, create, type DescField, type DescMessage, type Message, ScalarType } from "@bufbuild/protobuf";
import type { SeededChance } from "../../simulation/world/chance.ts";
import { nastyNumbers, nastyText } from "./mutate.ts";

/** Texts that the network knows, by the names of the fields in which they were sent. */
export class Words {
  readonly #byField = new Map<string, string[]>();

  /** Takes every text of a message. */
  learn(value: unknown, field = ""): void {
    if (typeof value === "string") this.#add(field, value);
    else if (Array.isArray(value)) for (const one of value.slice(0, 8)) this.learn(one, field);
    else if (value !== null && typeof value === "object" && !ArrayBuffer.isView(value))
      for (const [name, inner] of Object.entries(value)) if (name !== "$typeName") this.learn(inner, name);
  }

  of(field: string): readonly string[] {
    return this.#byField.get(field) ?? [];
  }

  #add(field: string, text: string): void {
    const known = this.#byField.get(field) ?? [];
    this.#byField.set(field, known);
    if (known.length < keptPerField && text.length < textMax && !known.includes(text)) known.push(text);
  }
}

const keptPerField = 30;
const textMax = 5_000;

const depthMax = 6;

export function drawnMessage(type: DescMessage, chance: SeededChance, words: Words, depth = 0): Message {
  const init: Record<string, unknown> = {};
  for (const member of type.members) {
    if (chance.happens(0.2)) continue;
    if (member.kind === "oneof") {
      const field = chance.pick(member.fields);
      init[member.localName] = { case: field.localName, value: drawnValue(field, chance, words, depth) };
    } else init[member.localName] = drawnValue(member, chance, words, depth);
  }
  return create(type, init as never);
}

/** A copy of a message that was sent, with one field or two drawn anew, at any depth. */
export function changedMessage(
  type: DescMessage,
  sent: Message,
  chance: SeededChance,
  words: Words,
  depth = 0,
): Message {
  const copy = { ...clone(type, sent) } as Record<string, unknown>;
  for (let count = chance.whole(0, 2); count > 0 && type.fields.length > 0; count--) {
    const field = chance.pick(type.fields);
    const { localName, oneof } = field;
    const held = oneof ? (copy[oneof.localName] as { case?: string; value?: unknown }) : undefined;
    const before = oneof ? (held?.case === localName ? held.value : undefined) : copy[localName];
    const isInner = field.fieldKind === "message" && before !== undefined && chance.happens(0.8);
    const value = isInner
      ? changedMessage(field.message, before as Message, chance, words, depth + 1)
      : drawnValue(field, chance, words, depth);
    if (oneof === undefined) copy[localName] = value;
    else if (held?.case === localName || chance.happens(0.1)) copy[oneof.localName] = { case: localName, value };
  }
  return create(type, copy as never);
}

function drawnValue(field: DescField, chance: SeededChance, words: Words, depth: number): unknown {
  if (field.fieldKind === "list") {
    const length = depth >= depthMax ? 0 : chance.pick([0, 1, 1, 2, 3, 17]);
    return Array.from({ length }, () => {
      if (field.listKind === "message") return drawnMessage(field.message, chance, words, depth + 1);
      return field.listKind === "enum" ? drawnEnum(chance) : drawnScalar(field.localName, field.scalar, chance, words);
    });
  }
  if (field.fieldKind === "map") {
    const names = Array.from(
      { length: chance.whole(0, 3) },
      () => drawnScalar(field.localName, field.mapKey, chance, words) as string,
    );
    return Object.fromEntries(
      names.map((name) => {
        if (field.mapKind === "message") return [name, drawnMessage(field.message, chance, words, depth + 1)];
        return [
          name,
          field.mapKind === "enum" ? drawnEnum(chance) : drawnScalar(field.localName, field.scalar, chance, words),
        ];
      }),
    );
  }
  if (field.fieldKind === "message")
    return depth >= depthMax ? undefined : drawnMessage(field.message, chance, words, depth + 1);
  return field.fieldKind === "enum" ? drawnEnum(chance) : drawnScalar(field.localName, field.scalar, chance, words);
}

/** Also numbers that the contract does not name: newer builds send those. */
function drawnEnum(chance: SeededChance): number {
  return chance.pick([0, 1, 2, 3, 4, 99]);
}

/** Mostly what such a field has held, sometimes what another one of the kind has, sometimes rubbish. */
function drawnText(field: string, chance: SeededChance, words: Words): string {
  const known = words.of(chance.happens(0.85) ? field : chance.pick(["id", "session", "name", "hash", "vnode"]));
  return chance.happens(0.8) && known.length > 0 ? chance.pick(known) : nastyText(chance).toWellFormed();
}

function drawnScalar(field: string, type: ScalarType, chance: SeededChance, words: Words): unknown {
  const number = chance.happens(0.6) ? chance.whole(0, 12) : chance.pick(nastyNumbers);
  const whole = (low: number, high: number) => Math.trunc(Math.min(high, Math.max(low, number)));
  switch (type) {
    case ScalarType.STRING:
      return drawnText(field, chance, words);
    case ScalarType.BYTES:
      return chance.happens(0.5)
        ? chance.bytes(chance.pick([0, 1, 4, 32, 64]))
        : Buffer.from(drawnText(field, chance, words));
    case ScalarType.BOOL:
      return chance.happens(0.5);
    case ScalarType.DOUBLE:
      return chance.pick([number, Number.NaN, Number.POSITIVE_INFINITY, -number]);
    case ScalarType.FLOAT:
      return chance.pick([Math.fround(chance.whole(0, 12)), Number.NaN, Number.NEGATIVE_INFINITY, 0.5]);
    case ScalarType.INT32:
    case ScalarType.SINT32:
    case ScalarType.SFIXED32:
      return whole(-(2 ** 31), 2 ** 31 - 1);
    case ScalarType.UINT32:
    case ScalarType.FIXED32:
      return whole(0, 2 ** 32 - 1);
    case ScalarType.UINT64:
    case ScalarType.FIXED64:
      return chance.happens(0.05) ? 2n ** 64n - 1n : BigInt(whole(0, 2 ** 53));
    default:
      return chance.happens(0.05) ? -(2n ** 63n) : BigInt(whole(-(2 ** 53), 2 ** 53));
  }
}
