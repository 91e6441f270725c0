// What the HTTP front ends of served models share: who asks, and what was sent, within bounds.

import type { DcnrError } from "../../../core/errors.ts";
import type { World } from "../../../core/world.ts";
import type { Caller, Roles } from "../../../protocol/network.ts";
import type { ApiKeys } from "../../rights/keys.ts";
import type { TextGenerator } from "../text.ts";
import { BadRequest } from "./openai-errors.ts";
import { isRecord } from "./openai-parameters.ts";

/** Far beyond any context; the rest would only be read to be refused. */
const bodyBytesMax = 512 << 10;

export interface ServingHttp {
  readonly world: World;
  readonly generator: TextGenerator;
  readonly keys: ApiKeys;
  identify(caller: Caller, authorization: string | undefined): Promise<Caller>;
  /** Refuses models that a key is not good for. */
  checkModel(roles: Roles, model: string): Promise<void>;
}

/** Fails unless the caller may have answers. */
export async function rolesOf({ identify, keys }: ServingHttp, request: Request, peer: string): Promise<Roles> {
  const authorization = request.headers.get("authorization") ?? undefined;
  return keys.require("generate", authorization, await identify({ address: peer }, authorization));
}

export async function readBody(request: Request): Promise<Readonly<Record<string, unknown>>> {
  const announced = Number(request.headers.get("content-length") ?? 0);
  if (announced > bodyBytesMax) throw tooLong();
  const parts: Uint8Array[] = [];
  let size = 0;
  for await (const part of request.body ?? []) {
    size += part.byteLength;
    if (size > bodyBytesMax) throw tooLong();
    parts.push(part);
  }
  try {
    const body: unknown = JSON.parse(Buffer.concat(parts).toString("utf8"));
    if (isRecord(body)) return body;
  } catch {
    // Falls through to the sentence below.
  }
  throw new BadRequest("invalid_value", undefined, "the request's body must be a JSON object");
}

function tooLong(): DcnrError {
  const message = `the request has more than ${bodyBytesMax >> 10} KB: shorten the prompt`;
  return new BadRequest("request_too_large", undefined, message);
}
