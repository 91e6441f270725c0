// In what compared runs differ: every setting as one line of text, and of those the ones that are not the same everywhere. Pure.

import { type JsonValue, toJson } from "@bufbuild/protobuf";
import { type SessionSettings, SessionSettingsSchema } from "../../src/protocol/gen/dcnr/v1/session_pb.ts";

/** "learningRate.base" to "0.001". */
export function flat(settings: SessionSettings | undefined): ReadonlyMap<string, string> {
  const found = new Map<string, string>();
  const visit = (value: JsonValue, path: string): void => {
    if (Array.isArray(value)) return void found.set(path, value.map(String).join(", "));
    if (value !== null && typeof value === "object")
      for (const [name, inner] of Object.entries(value)) visit(inner, path ? `${path}.${name}` : name);
    else found.set(path, String(value));
  };
  if (settings) visit(toJson(SessionSettingsSchema, settings), "");
  return found;
}

export interface Difference {
  readonly name: string;
  /** One for each run, in their order; empty where it was not said. */
  readonly values: readonly string[];
}

export function differences(all: readonly (SessionSettings | undefined)[]): Difference[] {
  const flats = all.map(flat);
  const names = new Set(flats.flatMap((one) => Array.from(one.keys())));
  return Array.from(names, (name) => ({ name, values: flats.map((one) => one.get(name) ?? "") })).filter(
    ({ values }) => new Set(values).size > 1,
  );
}

/** "learningRate.base" as people say it. */
export function spokenName(name: string): string {
  return name.replace(/([A-Z])/g, (letter) => ` ${letter.toLowerCase()}`).replaceAll(".", ": ");
}
