// The lists behind a statement, as blobs: every message that went into an interval, with the signatures of those who sent it
// from other machines, and everything that came out of it. Outputs are a pure function of the interval: whoever repeats it
// writes the same bytes. What is read here was written by strangers.

import { auditBlobBytesMax } from "../core/blobs.ts";
import { fail } from "../core/errors.ts";
import { canonicalJson, sha256 } from "../core/hash.ts";
import { parseSha256, type Sha256 } from "../core/ids.ts";

export interface Interval {
  readonly session: string;
  readonly vnode: string;
  readonly from: number;
  readonly to: number;
}

/** A message that was consumed. */
export interface ListedInput {
  /** Of its name (vnode/names.ts `keyOf`). */
  readonly key: string;
  readonly hash: string;
  /** The machine that sent it. */
  readonly sender: string;
  /** Empty where the sender is the machine itself. */
  readonly life: string;
  readonly signature: string;
}

export interface InputList extends Interval {
  readonly messages: readonly ListedInput[];
  /** By sender, base64. */
  readonly keys: Readonly<Record<string, string>>;
}

export interface OutputList extends Interval {
  readonly messages: readonly (readonly [key: string, hash: string])[];
  /** Hash of the state after each step. */
  readonly steps: readonly (readonly [step: number, hash: string])[];
  /** What was measured while learning, and while validating. */
  readonly measures: readonly (readonly [step: number, measures: Readonly<Record<string, number>>])[];
  readonly evaluations: readonly (readonly [step: number, measures: Readonly<Record<string, number>>])[];
}

const formats = { inputs: "dcnr-inputs-1", outputs: "dcnr-outputs-1" } as const;

/** In or out: a list of so many has some 40 MB. Whoever stated more would fill the memory of those who look for them. */
export const listedMax = 2 ** 17;

/** A row of a list has up to seven, and those of steps and measures are fewer. */
const marksMax = 16 * listedMax;
const isMark = new Uint8Array(256);
for (const mark of "[{,:") isMark[mark.charCodeAt(0)] = 1;

export interface WrittenList {
  readonly hash: Sha256;
  readonly content: Uint8Array;
}

export function writeInputs(list: InputList): WrittenList {
  const { session, vnode, from, to, keys } = list;
  const messages = [...list.messages]
    .sort((a, b) => compare(a.key, b.key))
    .map(({ key, hash, sender, life, signature }) => [key, hash, sender, life, signature]);
  return written({ format: formats.inputs, session, vnode, from, to, messages, keys });
}

export function writeOutputs(list: OutputList): WrittenList {
  const messages = [...list.messages].sort(([a], [b]) => compare(a, b));
  const byStep = <T extends readonly [number, unknown]>(entries: readonly T[]) =>
    [...entries].sort(([a], [b]) => a - b);
  const { session, vnode, from, to } = list;
  const rest = {
    steps: byStep(list.steps),
    measures: byStep(list.measures),
    evaluations: byStep(list.evaluations),
  };
  return written({ format: formats.outputs, session, vnode, from, to, messages, ...rest });
}

function written(value: object): WrittenList {
  const content = new TextEncoder().encode(canonicalJson(value));
  return { hash: sha256(content), content };
}

/** Fails with `data_loss` for what is no list of this interval. */
export function readInputs(content: Uint8Array, interval: Interval): InputList {
  const json = parsed(content, formats.inputs, interval);
  const messages = rows(json["messages"], 5).map(([key, hash, sender, life, signature]): ListedInput => {
    return {
      key: text(key),
      hash: parseSha256(text(hash), "a message's hash"),
      sender: text(sender),
      life: text(life),
      signature: text(signature),
    };
  });
  const keys: Record<string, string> = {};
  for (const [sender, key] of Object.entries(json["keys"] ?? {})) keys[sender] = text(key);
  return { ...interval, messages, keys };
}

/** Of the messages alone: enough to find where two ends of an edge differ. */
export function readOutputMessages(content: Uint8Array, interval: Interval): ReadonlyMap<string, string> {
  const json = parsed(content, formats.outputs, interval);
  return new Map(rows(json["messages"], 2).map(([key, hash]) => [text(key), text(hash)]));
}

/** Of the states alone: the hash after each step. */
export function readOutputSteps(content: Uint8Array, interval: Interval): ReadonlyMap<number, string> {
  const json = parsed(content, formats.outputs, interval);
  return new Map(
    rows(json["steps"], 2).map(([step, hash]) => [
      typeof step === "number" ? step : refuse("a step is no number"),
      text(hash),
    ]),
  );
}

function text(value: unknown): string {
  return typeof value === "string" ? value : refuse("an entry is no text");
}

function parsed(content: Uint8Array, format: string, { session, vnode, from, to }: Interval): Record<string, unknown> {
  if (content.byteLength > auditBlobBytesMax) refuse(`it has ${content.byteLength} bytes`);
  if (markCount(content) > marksMax) refuse("it is made of too many small things");
  let json: unknown;
  try {
    json = JSON.parse(new TextDecoder("utf-8", { fatal: true }).decode(content));
  } catch {
    return refuse("it is not JSON");
  }
  if (json === null || typeof json !== "object") return refuse("it is not an object");
  const list = json as Record<string, unknown>;
  if (list["format"] !== format) refuse(`its format is not ${format}`);
  const same = list["session"] === session && list["vnode"] === vnode && list["from"] === from && list["to"] === to;
  if (!same) refuse(`it is not of VNode ${vnode}, steps ${from} to ${to}`);
  return list;
}

/** So many values JSON has at most. Empty ones take twenty times their length in memory, which would end the process that reads them. */
function markCount(content: Uint8Array): number {
  let count = 0;
  for (let at = 0; at < content.byteLength; at++) count += isMark[content[at] as number] as number;
  return count;
}

function rows(value: unknown, width: number): unknown[][] {
  if (!Array.isArray(value) || !value.every((row) => Array.isArray(row) && row.length === width))
    return refuse("its messages have the wrong form");
  if (value.length > listedMax) refuse(`it names ${value.length} messages, at most ${listedMax} are read`);
  return value as unknown[][];
}

function refuse(reason: string): never {
  return fail("data_loss", `a list of messages cannot be used: ${reason}`);
}

function compare(a: string, b: string): number {
  return a < b ? -1 : a > b ? 1 : 0;
}

/** "f/edge" or "b/edge" of a message's name (vnode/names.ts `keyOf`). */
export function edgeOfKey(key: string): string {
  return key.split("/").slice(2).join("/");
}

/** What passed on an edge in one direction, in the order of names: both ends must come to the same. */
export function edgeRoot(messages: readonly (readonly [key: string, hash: string])[]): Sha256 {
  const sorted = [...messages].sort(([a], [b]) => compare(a, b));
  return sha256(sorted.map(([key, hash]) => `${key} ${hash}`).join("\n"));
}
