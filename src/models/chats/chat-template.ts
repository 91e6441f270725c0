// A model's chat template: a Jinja program that came with its files, run within bounds. Whoever publishes a model
// writes it, so it gets no clock, no long loops and no long texts.

import { Environment, Interpreter, parse, tokenize } from "@huggingface/jinja";
import { DcnrError, fail, messageOf } from "../../core/errors.ts";
import { sha256 } from "../../core/hash.ts";
import type { Tool, ToolCall } from "./tools.ts";

export interface ChatTurn {
  readonly role: "system" | "user" | "assistant" | "tool";
  readonly content: string;
  /** Of an assistant: what it called. */
  readonly calls?: readonly (ToolCall & { readonly id: string })[];
  /** Of a tool: which call it answers, and of which function. */
  readonly callId?: string;
  readonly name?: string;
}

/** A conversation, and what a model may call in its answer. */
export interface ChatPrompt {
  readonly turns: readonly ChatTurn[];
  readonly tools?: readonly Tool[];
  /** What the answer begins with, as the template itself would write it. */
  readonly opening?: string;
}

/** The longest in use, with tools and thoughts, have about 20,000 characters. */
export const templateLengthMax = 128 << 10;
/** A turn takes some hundred evaluations, so that a thousand turns pass. */
const evaluationsMax = 250_000;
const rangeMax = 10_000;
/** Characters of a text and items of a list: more than any context holds. */
const lengthMax = 4 << 20;

export interface ChatVariables {
  readonly bosToken: string;
  readonly eosToken: string;
}

export type ChatTemplate = (prompt: ChatPrompt, variables: ChatVariables) => string;

export function openTemplate(text: string): ChatTemplate {
  if (text.length > templateLengthMax)
    fail(
      "resource_exhausted",
      `the chat template has ${text.length} characters, at most ${templateLengthMax} are allowed`,
    );
  const program = parsed(text);
  const idOf = shortIds.test(text) ? shortId : (id: string) => id;
  return ({ turns, tools = [], opening = "" }, { bosToken, eosToken }) => {
    const environment = openEnvironment({
      messages: turns.map((turn) => messageIn(turn, idOf)),
      // None where there are none, as Transformers has it: "is not none" must not hold then.
      tools: tools.length > 0 ? tools.map(describedTool) : null,
      documents: null,
      add_generation_prompt: true,
      bos_token: bosToken,
      eos_token: eosToken,
    });
    try {
      const { value } = new BoundedInterpreter(environment).run(program);
      return typeof value === "string" ? value + opening : fail("invalid_argument", "it writes no text");
    } catch (thrown) {
      // Templates refuse conversations themselves, such as two turns of one role, by raising an exception.
      const code = thrown instanceof DcnrError ? thrown.code : "invalid_argument";
      fail(code, `the model's chat template cannot write down this conversation: ${messageOf(thrown)}`, thrown);
    }
  };
}

/** Mistral's templates refuse ids of calls that have not nine letters and digits; those of clients come from anywhere. */
const shortIds = /\blength\s*!=\s*9\b/;

function shortId(id: string): string {
  return /^[A-Za-z0-9]{9}$/.test(id) ? id : sha256(id).slice(0, 9);
}

/** In the shape that Transformers hands to templates. */
function messageIn({ role, content, calls, callId, name }: ChatTurn, idOf: (id: string) => string) {
  return {
    role,
    content,
    ...(calls ? { tool_calls: calls.map((call) => calledFunction(call, idOf)) } : {}),
    ...(callId === undefined ? {} : { tool_call_id: idOf(callId) }),
    ...(name === undefined ? {} : { name }),
  };
}

function calledFunction(
  { id, name, arguments: given }: NonNullable<ChatTurn["calls"]>[number],
  idOf: (id: string) => string,
) {
  return { id: idOf(id), type: "function", function: { name, arguments: JSON.parse(given) as unknown } };
}

function describedTool({ name, description = "", parameters }: Tool) {
  return { type: "function", function: { name, description, parameters } };
}

function parsed(text: string): unknown {
  try {
    return parse(tokenize(text, { lstrip_blocks: true, trim_blocks: true }));
  } catch (thrown) {
    fail("invalid_argument", `the chat template is not valid: ${messageOf(thrown)}`, thrown);
  }
}

/** Without strftime_now: a template then writes its own date, and the same conversation is the same text tomorrow. */
function openEnvironment(variables: Readonly<Record<string, unknown>>): unknown {
  const environment = new Environment() as { set(name: string, value: unknown): void };
  const constants = { false: false, true: true, none: null, False: false, True: true, None: null };
  for (const [name, value] of Object.entries({ ...constants, ...variables })) environment.set(name, value);
  environment.set("raise_exception", (message: unknown) => fail("invalid_argument", String(message)));
  environment.set("range", boundedRange);
  return environment;
}

function boundedRange(first: number, second?: number, step = 1): number[] {
  const [start, stop] = second === undefined ? [0, first] : [first, second];
  const count = Math.max(0, Math.ceil((stop - start) / step));
  if (!(count <= rangeMax)) fail("resource_exhausted", `range(${first}, ${second}, ${step}) is too long`);
  return Array.from({ length: count }, (_, i) => start + i * step);
}

/** What we use of the library's interpreter; its own declarations leave out file endings, so that they are not found. */
interface Runner {
  run(program: unknown): { readonly value: unknown };
  evaluate(statement: unknown, environment: unknown): { readonly value: unknown };
}
const LibraryInterpreter = Interpreter as new (environment: unknown) => Runner;

class BoundedInterpreter extends LibraryInterpreter {
  #evaluations = 0;

  override evaluate(statement: unknown, environment: unknown): { readonly value: unknown } {
    if (++this.#evaluations > evaluationsMax) fail("resource_exhausted", "it takes too many steps");
    const result = super.evaluate(statement, environment);
    const { value } = result;
    if ((typeof value === "string" || Array.isArray(value)) && value.length > lengthMax)
      fail("resource_exhausted", "it makes too long a text");
    return result;
  }
}
