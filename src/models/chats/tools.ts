// Tools that a model may call, in the way its own chat template teaches it: how calls are written, how they are read from an
// answer, and how an answer is made to be one.

import { fail } from "../../core/errors.ts";

/** A function of the caller's, described to the model. */
export interface Tool {
  readonly name: string;
  readonly description?: string;
  /** JSON Schema of an object. */
  readonly parameters: Readonly<Record<string, unknown>>;
}

export interface ToolCall {
  readonly name: string;
  /** JSON. */
  readonly arguments: string;
}

/**
 * How models write calls, told from their templates: "marked" (Hermes, Qwen) puts each between <tool_call> tags, "listed" (Mistral)
 * lists them behind [TOOL_CALLS], "plain" (Llama) answers with an object that has name and parameters.
 */
export type ToolFormat = "marked" | "listed" | "plain";

/** Undefined: the template says nothing about tools, or in a way that is not understood. */
export function toolFormatOf(template: string): ToolFormat | undefined {
  if (!/\btools\b/.test(template)) return undefined;
  if (template.includes("<tool_call>")) return /<function=|<parameter=/.test(template) ? undefined : "marked";
  if (template.includes("[TOOL_CALLS]")) return template.includes("[ARGS]") ? undefined : "listed";
  return /<\|python_tag\|>|"name": function name, "parameters"/.test(template) ? "plain" : undefined;
}

const openTag = "<tool_call>";
const closeTag = "</tool_call>";
/** Calls of one answer that must be some. */
const forcedCallsMax = 8;

export interface ForcedCall {
  /** What the answer begins with: it is part of the prompt. */
  readonly opening: string;
  /** What the rest of it must fit, as JSON. */
  readonly schema: string;
}

/** An answer that is a call of one of these tools and nothing else. */
export function forcedCall(format: ToolFormat, tools: readonly Tool[], parallel: boolean): ForcedCall {
  const field = format === "plain" ? "parameters" : "arguments";
  const calls = tools.map(({ name, parameters }, index) => {
    const place = `${format === "listed" ? "#/items" : "#"}/anyOf/${index}/properties/${field}`;
    const properties = { name: { const: name }, [field]: rebased(objectSchema(parameters), place) };
    return { type: "object", properties, required: ["name", field] };
  });
  const call = { anyOf: calls };
  if (format === "plain") return { opening: "", schema: JSON.stringify(call) };
  if (format === "marked") return { opening: `${openTag}\n`, schema: JSON.stringify(call) };
  const list = { type: "array", items: call, minItems: 1, maxItems: parallel ? forcedCallsMax : 1 };
  return { opening: "[TOOL_CALLS]", schema: JSON.stringify(list) };
}

function objectSchema(schema: Tool["parameters"]): Tool["parameters"] {
  return Object.keys(schema).length === 0 ? { type: "object", properties: {}, additionalProperties: false } : schema;
}

/** References of a schema mean places in itself: where it becomes a part of another one, they name its place there. */
function rebased(schema: unknown, place: string): unknown {
  if (Array.isArray(schema)) return schema.map((one) => rebased(one, place));
  if (schema === null || typeof schema !== "object") return schema;
  return Object.fromEntries(
    Object.entries(schema).map(([name, value]) => [
      name,
      name === "$ref" && typeof value === "string" && value.startsWith("#")
        ? place + value.slice(1)
        : rebased(value, place),
    ]),
  );
}

/** Tells calls from text as an answer comes in. What only looked like a call is text in the end. */
export class CallReader {
  readonly #format: ToolFormat;
  readonly #forced: boolean;
  readonly #oneCall: boolean;
  #held = "";
  #text = false;

  /** `oneCall`: calls behind the first are left out. */
  constructor(format: ToolFormat, forced: boolean, oneCall = false) {
    this.#format = format;
    this.#forced = forced;
    this.#oneCall = oneCall;
  }

  /** What may be shown of the answer now. */
  push(piece: string): string {
    this.#held += piece;
    if (this.#forced) return "";
    if (this.#format === "marked") return this.#release(beforeTag(this.#held));
    // It is a call from its first character on, or none.
    const first = this.#held.trimStart()[0];
    if (first === undefined && !this.#text) return "";
    this.#text ||= first !== (this.#format === "plain" ? "{" : "[");
    return this.#text ? this.#release(this.#held.length) : "";
  }

  end(): { readonly text: string; readonly calls: readonly ToolCall[] } {
    const calls = this.#text ? undefined : callsIn(this.#held, this.#format, this.#forced);
    return calls ? { text: "", calls: this.#oneCall ? calls.slice(0, 1) : calls } : { text: this.#held, calls: [] };
  }

  #release(length: number): string {
    const text = this.#held.slice(0, length);
    this.#held = this.#held.slice(length);
    return text;
  }
}

/** How much of a text comes before a tag, or before what may become one. */
function beforeTag(text: string): number {
  const found = text.indexOf(openTag);
  if (found >= 0) return found;
  for (let length = Math.min(text.length, openTag.length - 1); length > 0; length--)
    if (text.endsWith(openTag.slice(0, length))) return text.length - length;
  return text.length;
}

function callsIn(text: string, format: ToolFormat, forced: boolean): ToolCall[] | undefined {
  if (format === "marked" && !forced) {
    const parts = text.split(openTag).slice(1);
    const calls = parts.map((part) => callOf(parsed(part.split(closeTag, 1)[0] ?? ""), format));
    return calls.length > 0 && calls.every((call) => call !== undefined) ? calls : undefined;
  }
  const value = parsed(text);
  const calls = (Array.isArray(value) ? value : [value]).map((one) => callOf(one, format));
  return calls.length > 0 && calls.every((call) => call !== undefined) ? calls : undefined;
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

function callOf(value: unknown, format: ToolFormat): ToolCall | undefined {
  if (value === null || typeof value !== "object") return undefined;
  const { name, arguments: given, parameters } = value as Record<string, unknown>;
  const values = format === "plain" ? (parameters ?? given) : given;
  if (typeof name !== "string" || values === null || typeof values !== "object" || Array.isArray(values))
    return undefined;
  return { name, arguments: JSON.stringify(values) };
}

export function noTools(model: string): never {
  return fail(
    "failed_precondition",
    `the chat template of model ${model} teaches no tools that are understood: leave tools out`,
  );
}
