// How a conversation becomes the tokens that a model was taught to answer: by its own template if it came with one.
// Control tokens count only where the template writes them; spelt out in a message they are mere text.

import { fail, messageOf } from "../../core/errors.ts";
import { markedTokens, markSpecials, withoutMarks } from "../../data/bpe/marks.ts";
import type { Tokenizer } from "../../data/bpe/tokenizer.ts";
import { type ChatPrompt, type ChatTurn, openTemplate, templateLengthMax } from "./chat-template.ts";
import { type ToolFormat, toolFormatOf } from "./tools.ts";

/** What a model's files say about text beyond its vocabulary. Kept as JSON, as it stands. */
export interface ChatFormat {
  /** Jinja; empty if the model was not taught to converse. */
  readonly template: string;
  readonly bosToken: string;
  readonly eosToken: string;
  /** Ids after which an answer is complete. */
  readonly endTokens: readonly number[];
}

export interface Chat {
  encode(prompt: ChatPrompt): Int32Array;
  /** Words that end an answer where no token does. */
  readonly stop: readonly string[];
  /** How the model calls tools; undefined: it was not taught to. */
  readonly tools: ToolFormat | undefined;
}

export const chatFormatBytesMax = 4 * templateLengthMax;
const tokenLengthMax = 256;
const endTokensMax = 32;

/** For vocabularies that have its tokens, where no template says otherwise. */
const chatMl =
  "{% for turn in messages %}<|im_start|>{{ turn.role }}\n{{ turn.content }}<|im_end|>\n{% endfor %}<|im_start|>assistant\n";

export function parseChatFormat(text: string): ChatFormat {
  const refuse = (why: string): never => fail("invalid_argument", `the chat format ${why}`);
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch (thrown) {
    refuse(`is not JSON: ${messageOf(thrown)}`);
  }
  const { template, bosToken, eosToken, endTokens } = (value ?? {}) as Partial<Record<keyof ChatFormat, unknown>>;
  if (typeof template !== "string") return refuse("has no template");
  for (const token of [bosToken, eosToken])
    if (typeof token !== "string" || token.length > tokenLengthMax)
      return refuse("has a bosToken or eosToken that is none");
  const isId = (id: unknown) => Number.isSafeInteger(id) && (id as number) >= 0 && (id as number) < 2 ** 31;
  if (!Array.isArray(endTokens) || endTokens.length > endTokensMax || !endTokens.every(isId))
    return refuse(`needs a list of at most ${endTokensMax} endTokens`);
  if (template !== "") openTemplate(template);
  return { template, bosToken: bosToken as string, eosToken: eosToken as string, endTokens: endTokens as number[] };
}

export function openChat(format: ChatFormat | undefined, tokenizer: Tokenizer): Chat {
  const knowsChatMl = ["<|im_start|>", "<|im_end|>"].every((token) => tokenizer.idOf(token) !== undefined);
  const template = format?.template || (knowsChatMl ? chatMl : "");
  if (template === "") return plainChat(tokenizer);
  const marked = (text: string) => markSpecials(text, tokenizer.added);
  const write = openTemplate(marked(template));
  const variables = { bosToken: marked(format?.bosToken ?? ""), eosToken: marked(format?.eosToken ?? "") };
  return {
    stop: [],
    tools: toolFormatOf(template),
    encode: ({ turns, tools, opening = "" }) => {
      const safe = withoutMarksIn({ turns, ...(tools ? { tools } : {}) });
      return tokenizer.encode(write({ ...safe, opening: marked(opening) }, variables), { parseSpecial: "marked" });
    },
  };
}

/** All texts of strangers, however deep, names included. */
function withoutMarksIn<Value>(value: Value): Value {
  if (typeof value === "string") return withoutMarks(value) as Value;
  if (Array.isArray(value)) return value.map(withoutMarksIn) as Value;
  if (value === null || typeof value !== "object") return value;
  return Object.fromEntries(
    Object.entries(value).map(([name, one]) => [withoutMarks(name), withoutMarksIn(one)]),
  ) as Value;
}

/**
 * Control tokens that the template puts together from parts, such as "<|" + role + "|>": they cannot be told from what a
 * message spells, so they are sent as text.
 */
export function composedTokens(format: ChatFormat, tokenizer: Tokenizer): string[] {
  if (format.template === "") return [];
  const marked = (text: string) => markSpecials(text, tokenizer.added);
  const variables = { bosToken: marked(format.bosToken), eosToken: marked(format.eosToken) };
  const write = openTemplate(marked(format.template));
  const written = probes.map((turns) => {
    try {
      return write({ turns }, variables);
    } catch {
      // Some templates know no system turn.
      return "";
    }
  });
  return markedTokens(tokenizer.added)
    .map(({ content }) => content)
    .filter((content) => written.some((text) => text.includes(content)));
}

const asked: ChatTurn[] = [{ role: "user", content: "a" }];
const answered: ChatTurn[] = [...asked, { role: "assistant", content: "b" }, ...asked];
const probes: readonly ChatTurn[][] = [answered, [{ role: "system", content: "c" }, ...answered]];

/** A base model knows no roles: a single turn is simply continued. */
function plainChat(tokenizer: Tokenizer): Chat {
  return {
    stop: ["\nuser:", "\nsystem:"],
    tools: undefined,
    encode: ({ turns }) => {
      const [only] = turns;
      const text =
        turns.length === 1 && only
          ? only.content
          : `${turns.map(({ role, content }) => `${role}: ${content}\n`).join("")}assistant:`;
      return tokenizer.encode(withoutMarks(text), { addSpecial: true, parseSpecial: "marked" });
    },
  };
}
