// `dcnr vocab show`: one vocabulary, and how it cuts a text.

import { loadTokenizer } from "../../../data/bpe/json.ts";
import type { Command } from "../../command.ts";
import { connectionOptions, withClient } from "../../joining/connection.ts";
import { bytes } from "../../shown/progress.ts";

export const command: Command = {
  summary: "Show a vocabulary; with a text, how it is cut into tokens.",
  positionals: [{ name: "NAME" }, { name: "TEXT", optional: true }],
  options: connectionOptions,
  examples: ["dcnr vocab show english", 'dcnr vocab show english "Call me Ishmael"'],
  run: (context) =>
    withClient(context, async (client) => {
      const { flags, out } = context;
      const [name = "", text] = context.arguments;
      const { vocabulary, tokenizer } = await client.vocabularies.get(name);
      const { encode, decode } = loadTokenizer(tokenizer);
      const tokens = text === undefined ? undefined : Array.from(encode(text), Number);
      const pieces = tokens?.map((id) => ({ id, text: decode([id]) }));
      if (flags.is("json")) return void out.json(pieces ? { ...vocabulary, pieces } : vocabulary);
      const count = vocabulary.tokens.toLocaleString("en");
      out.line(`${vocabulary.name}: ${count} tokens, ${bytes(vocabulary.bytes)}, hash ${vocabulary.hash}`);
      if (pieces) out.line(pieces.map((piece) => `${JSON.stringify(piece.text)} ${piece.id}`).join("  "));
      return undefined;
    }),
};
