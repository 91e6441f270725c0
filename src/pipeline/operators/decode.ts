// Makes texts readable: HTML without its tags, JSON within a field, base64, and one spelling of each character.

import type { Work } from "../../core/aside.ts";
import { fail } from "../../core/errors.ts";
import { pipelineLane, putShard } from "../kit.ts";
import { needRows, type Operator } from "../operator.ts";
import { type Output, parseRow, RecordWriter, type Row, recordOfRow, recordsOf, rowOf, textOf } from "../records.ts";
import { choice, fieldsOf, text } from "../settings.ts";
import { eachShard } from "./each-shard.ts";
import { plainText } from "./html.ts";

const encodings = ["html", "json", "base64", "nfc"] as const;
type Encoding = (typeof encodings)[number];

interface DecodeInput {
  readonly as: Encoding;
  readonly field: string;
  readonly where: string;
  readonly content: Uint8Array;
}

export const decoding: Work<DecodeInput, { readonly content: Uint8Array; readonly count: number }> = {
  lane: pipelineLane,
  module: import.meta.url,
  name: "decoding",
  what: "what is to be decoded",
  deadlineMs: 120_000,
  run: ({ as, field, where, content }) => {
    const decoded = new RecordWriter();
    for (const record of recordsOf(content)) decoded.add(recordOfRow(decodeRow(rowOf(record), as, field, where)));
    return [decoded.take()];
  },
};

function decodeRow(row: Row, as: Encoding, field: string, where: string): Row {
  const given = textOf(row, field, where);
  switch (as) {
    case "html":
      return { ...row, [field]: plainText(given) };
    case "nfc":
      return { ...row, [field]: given.normalize("NFC") };
    case "json": {
      const { [field]: _taken, ...others } = row;
      return { ...others, ...parseRow(given, `${where}: the field "${field}" of a row`) };
    }
    case "base64":
      return { ...row, [field]: base64Text(given, field, where) };
  }
}

function base64Text(given: string, field: string, where: string): string {
  const compact = given.replace(/\s+/g, "");
  if (!/^[A-Za-z0-9+/_-]*={0,2}$/.test(compact))
    fail("invalid_argument", `${where}: the field "${field}" of a row is not base64`);
  try {
    return new TextDecoder("utf-8", { fatal: true }).decode(Buffer.from(compact, "base64"));
  } catch {
    return fail("invalid_argument", `${where}: the field "${field}" of a row holds no UTF-8 text in base64`);
  }
}

export const decode: Operator = {
  name: "decode",
  version: 1,
  reads: "one",
  read(given, where) {
    const fields = fieldsOf(typeof given === "string" ? { as: given } : given, ["as", "field"], where);
    return { as: choice(fields, "as", where, encodings), field: text(fields, "field", where, "text") };
  },
  gives: (formats, _settings, _facts, where) => needRows(formats, where),
  run: ({ settings, inputs, kit, where }): Promise<Output> =>
    eachShard(inputs[0] as Output, kit, async (shard) => {
      const content = await kit.blobs.get(shard.hash);
      const as = settings["as"] as Encoding;
      const made = await kit.aside(decoding, { as, field: settings["field"] as string, where, content });
      return putShard(kit.blobs, made.content, made.count);
    }),
};
