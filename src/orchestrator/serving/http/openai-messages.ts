// Conversations and tools of OpenAI requests: who said what, what was called, what may be called.

import type { ChatTurn } from "../../../models/chats/chat-template.ts";
import type { Tool } from "../../../models/chats/tools.ts";
import { type TextRequest, turnsMax } from "../text.ts";
import { refuse } from "./openai-errors.ts";
import { checkCall, checkMessage, checkPart, checkTool, checkToolFunction, isRecord } from "./openai-parameters.ts";

type Body = Readonly<Record<string, unknown>>;

const toolsMax = 128;
const callsMax = 128;
const nameForm = /^[\w.-]{1,64}$/;

export function conversationOf(messages: unknown, name = "messages"): ChatTurn[] {
  if (messages === undefined) refuse(name, `${name} is missing`, "missing_required_parameter");
  if (!Array.isArray(messages) || messages.length === 0)
    refuse(name, `${name} must be a list with at least one message`);
  if (messages.length > turnsMax)
    refuse(name, `${name} has ${messages.length} entries, at most ${turnsMax} are allowed`);
  const turns = messages.map((message: unknown, index) => parseMessage(message, `${name}[${index}]`));
  return turns.map((turn, index) => withCalledName(turn, turns.slice(0, index), `${name}[${index}]`));
}

function parseMessage(message: unknown, place: string): ChatTurn {
  if (!isRecord(message)) refuse(place, `${place} must be an object with role and content`);
  checkMessage(message, place);
  const { role, content } = message;
  switch (role) {
    case "system":
    case "developer":
      return { role: "system", content: contentText(content, `${place}.content`) };
    case "user":
      return { role, content: contentText(content, `${place}.content`) };
    case "assistant": {
      const calls = callsOf(message["tool_calls"] ?? [], `${place}.tool_calls`);
      const isSilent = calls.length > 0 && (content === undefined || content === null);
      const said = isSilent ? "" : contentText(content, `${place}.content`);
      return { role, content: said, ...(calls.length > 0 ? { calls } : {}) };
    }
    case "tool": {
      const callId = message["tool_call_id"];
      if (typeof callId !== "string")
        refuse(`${place}.tool_call_id`, `${place}.tool_call_id must name the call it answers`);
      return { role, content: contentText(content, `${place}.content`), callId };
    }
    default:
      return refuse(`${place}.role`, `${place}.role must be system, developer, user, assistant or tool`);
  }
}

/** Templates want to know which function an answer is of. */
function withCalledName(turn: ChatTurn, before: readonly ChatTurn[], place: string): ChatTurn {
  if (turn.role !== "tool") return turn;
  const call = before.flatMap(({ calls = [] }) => calls).find(({ id }) => id === turn.callId);
  if (!call) refuse(`${place}.tool_call_id`, `${place}.tool_call_id names a call that no message before it made`);
  return { ...turn, name: call.name };
}

export function contentText(content: unknown, place: string): string {
  if (typeof content === "string") return content;
  if (!Array.isArray(content)) refuse(place, `${place} must be a string or a list of text parts`);
  return content
    .map((part: unknown, index) => {
      const at = `${place}[${index}]`;
      if (!isRecord(part) || part["type"] !== "text" || typeof part["text"] !== "string")
        refuse(at, `${at} is not a text part: ${place} may only have text parts`);
      checkPart(part, at);
      return part["text"];
    })
    .join("");
}

function callsOf(value: unknown, place: string): NonNullable<ChatTurn["calls"]> {
  if (!Array.isArray(value) || value.length > callsMax)
    refuse(place, `${place} must be a list of at most ${callsMax} calls`);
  return value.map((call: unknown, index) => {
    const at = `${place}[${index}]`;
    if (!isRecord(call) || typeof call["id"] !== "string" || !isRecord(call["function"]))
      refuse(at, `${at} must be a call with id and function`);
    checkCall(call, at);
    const { name, arguments: given } = call["function"];
    if (typeof name !== "string" || !nameForm.test(name))
      refuse(`${at}.function.name`, `${at}.function.name must be a function's name`);
    if (typeof given !== "string" || !isRecord(parsed(given)))
      refuse(`${at}.function.arguments`, `${at}.function.arguments must be an object, as JSON text`);
    return { id: call["id"], name, arguments: given };
  });
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

/** The tools that an answer may or must call; none if it must not. */
export function toolsOf(body: Body): { readonly tools: readonly Tool[]; readonly mustCall?: TextRequest["mustCall"] } {
  const listed = body["tools"] ?? [];
  if (!Array.isArray(listed) || listed.length > toolsMax)
    refuse("tools", `tools must be a list of at most ${toolsMax}`);
  const choice = body["tool_choice"] ?? "auto";
  const tools = listed.map((tool: unknown, index) => toolOf(tool, `tools[${index}]`, choice === "auto"));
  if (new Set(tools.map(({ name }) => name)).size < tools.length)
    refuse("tools", "tools has two functions of one name");
  if (choice === "none") return { tools: [] };
  if (choice === "auto") return { tools };
  const mustCall = { parallel: body["parallel_tool_calls"] !== false };
  const name = isRecord(choice) && choice["type"] === "function" ? nameIn(choice["function"]) : undefined;
  if (choice !== "required" && name === undefined)
    refuse("tool_choice", 'tool_choice must be "none", "auto", "required" or name a function', "unsupported_parameter");
  if (tools.length === 0) refuse("tool_choice", "tool_choice asks for a call, but there are no tools");
  if (name === undefined) return { tools, mustCall };
  const only = tools.filter((tool) => tool.name === name);
  if (only.length === 0) refuse("tool_choice", "tool_choice names a function that is not among the tools");
  return { tools: only, mustCall };
}

function nameIn(value: unknown): unknown {
  return isRecord(value) ? value["name"] : undefined;
}

function toolOf(tool: unknown, place: string, isFree: boolean): Tool {
  if (!isRecord(tool) || !isRecord(tool["function"]))
    refuse(place, `${place} must be an object with type and function`);
  checkTool(tool, place);
  const described = tool["function"];
  checkToolFunction(described, `${place}.function`);
  const { name, description, parameters = {}, strict } = described;
  if (typeof name !== "string" || !nameForm.test(name))
    refuse(`${place}.function.name`, `${place}.function.name must have 1 to 64 letters, digits, _, . or -`);
  if (parameters !== null && !isRecord(parameters))
    refuse(`${place}.function.parameters`, `${place}.function.parameters must be a JSON schema`);
  // Only an answer that has to be a call is held to its schema.
  if (strict === true && isFree)
    refuse(
      `${place}.function.strict`,
      `${place}.function.strict needs a tool_choice of "required" or a function: leave it out`,
      "unsupported_parameter",
    );
  return { name, ...(typeof description === "string" ? { description } : {}), parameters: parameters ?? {} };
}
