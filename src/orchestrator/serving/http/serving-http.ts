// What the HTTP front ends of served models share: who asks, and what was sent, within bounds of size, memory and time.

import type { Aside } from "../../../core/aside.ts";
import { DcnrError } from "../../../core/errors.ts";
import type { World } from "../../../core/world.ts";
import { within } from "../../../protocol/connections/deadline.ts";
import type { Caller, Counted, Roles } from "../../../protocol/network.ts";
import type { ApiKeys } from "../../rights/keys.ts";
import type { TextGenerator } from "../text.ts";
import { BadRequest } from "./openai-errors.ts";
import { bodyBytesMax, bodyIn, readingTexts } from "./works.ts";

/** Of requests with up to 2,048 texts: eight times as many tokens as OpenAI takes in one, written as ids. */
const textsBytesMax = 16 << 20;
/** A body is here whole after so long and what its size takes at this pace, a quarter of a megabit a second. */
const bodyMs = 30_000;
const bodyBytesPerSecond = 32 << 10;

export type Body = Readonly<Record<string, unknown>>;

export interface ServingHttp {
  readonly world: World;
  readonly generator: TextGenerator;
  readonly keys: ApiKeys;
  /** Where long bodies are read. */
  readonly aside: Aside;
  identify(caller: Caller, authorization: string | undefined): Promise<Caller>;
  /** Refuses models that a key is not good for. */
  checkModel(roles: Roles, model: string): Promise<void>;
}

/** A request that may have answers. */
export interface Asked {
  readonly request: Request;
  readonly roles: Roles;
  readonly counted: Counted;
}

/** Fails unless the caller may have answers; from now on the request counts for its key. */
export async function admitted(
  { identify, keys }: ServingHttp,
  request: Request,
  peer: string,
  counted: Counted,
): Promise<Asked> {
  const authorization = request.headers.get("authorization") ?? undefined;
  const roles = await keys.require("generate", authorization, await identify({ address: peer }, authorization));
  counted.countFor(roles.key);
  return { request, roles, counted };
}

/** Aborts when the client goes away, also if it went while the request was read. */
export function stopFor({ signal }: Request): AbortController {
  const stop = new AbortController();
  const abort = () => stop.abort();
  if (signal.aborted) abort();
  signal.addEventListener("abort", abort, { once: true });
  return stop;
}

export async function readBody({ world }: ServingHttp, asked: Asked): Promise<Body> {
  return bodyIn(await collected(world, asked, bodyBytesMax, "shorten the prompt"));
}

/** Of a request with many texts or lists of token ids, which stand under `name`. */
export async function readTexts({ world, aside }: ServingHttp, asked: Asked, name: string): Promise<Body> {
  const content = await collected(world, asked, textsBytesMax, "send fewer texts at a time");
  if (content.byteLength <= bodyBytesMax) return bodyIn(content);
  const [rest, ...texts] = await aside.run(readingTexts, { content, name });
  const body = JSON.parse(rest as string) as Body;
  return texts.length > 0 ? { ...body, [name]: texts } : body;
}

/** What was sent counts as the caller's memory until the request is over. */
async function collected(
  { timers }: World,
  { request, counted }: Asked,
  bytesMax: number,
  remedy: string,
): Promise<Uint8Array> {
  const tooLong = () =>
    new BadRequest("request_too_large", undefined, `the request has more than ${bytesMax >> 10} KB: ${remedy}`);
  const announced = Number(request.headers.get("content-length") ?? bytesMax);
  if (announced > bytesMax) throw tooLong();
  const parts: Uint8Array[] = [];
  let size = 0;
  const pieces = request.body?.getReader();
  let isLate = false;
  const late = within(timers, bodyMs + (announced / bodyBytesPerSecond) * 1_000, () => {
    isLate = true;
    void pieces?.cancel();
  });
  try {
    for (let next = await pieces?.read(); next && !next.done; next = await pieces?.read()) {
      size += next.value.byteLength;
      if (size > bytesMax) throw tooLong();
      if (!counted.hold(next.value.byteLength))
        throw new DcnrError("resource_exhausted", "refused: too many bytes of yours, or in all, are in memory");
      parts.push(next.value);
    }
  } finally {
    late();
  }
  if (isLate) throw new DcnrError("deadline_exceeded", "the request took too long to come");
  return Buffer.concat(parts);
}
