// Errors as OpenAI's clients know them: a status that decides whether they try again, and a type, a parameter and a
// code that programs read. Nothing is answered with 409, which those clients repeat in vain.

import { DcnrError, type ErrorCode } from "../../../core/errors.ts";
import { TooManyRequests } from "../../rights/keys.ts";
import { BadSchema, NoSuchModel, PromptTooLong } from "../text.ts";

/** What is wrong with a request itself. Codes are OpenAI's where it has one. */
export type RequestFault =
  | "unknown_parameter"
  | "unsupported_parameter"
  | "missing_required_parameter"
  | "invalid_value"
  | "request_too_large"
  | "unknown_url";

/** A request that is refused because of one of its parameters. */
export class BadRequest extends DcnrError {
  readonly fault: RequestFault;
  /** Where in the body, such as `messages[0].role`; undefined if it is the whole. */
  readonly param: string | undefined;

  constructor(fault: RequestFault, param: string | undefined, message: string) {
    super(fault === "unknown_url" ? "not_found" : "invalid_argument", message);
    this.fault = fault;
    this.param = param;
  }
}

export function refuse(param: string, message: string, fault: RequestFault = "invalid_value"): never {
  throw new BadRequest(fault, param, message);
}

/** Clients repeat what has 408, 409, 429 or 5xx: those are for what may work later. */
const answers: Record<ErrorCode, readonly [status: number, code: string]> = {
  invalid_argument: [400, "invalid_value"],
  out_of_range: [400, "invalid_value"],
  failed_precondition: [400, "failed_precondition"],
  already_exists: [400, "already_exists"],
  unimplemented: [400, "unsupported_parameter"],
  unauthenticated: [401, "invalid_api_key"],
  permission_denied: [403, "missing_scope"],
  not_found: [404, "not_found"],
  resource_exhausted: [429, "rate_limit_exceeded"],
  internal: [500, "internal_error"],
  data_loss: [500, "internal_error"],
  cancelled: [503, "service_unavailable"],
  aborted: [503, "service_unavailable"],
  unavailable: [503, "service_unavailable"],
  deadline_exceeded: [504, "timeout"],
};

/** Answers end all the time, so whoever found no room may come back soon. */
const retryAfterMs = 1_000;

export function statusOfError(error: unknown): number {
  return error instanceof DcnrError ? answers[error.code][0] : 500;
}

export function errorBody(error: unknown) {
  const status = statusOfError(error);
  return {
    // What is not an expected failure may name files or secrets.
    message: error instanceof DcnrError ? error.message : "internal error",
    type: status === 429 ? "rate_limit_exceeded" : status < 500 ? "invalid_request_error" : "server_error",
    param: paramOf(error),
    code: codeOf(error),
  };
}

export function errorResponse(error: unknown): Response {
  const status = statusOfError(error);
  const waitMs = error instanceof TooManyRequests ? error.waitMs : retryAfterMs;
  const headers: Record<string, string> =
    status === 429 || status === 503 ? { "retry-after": String(Math.ceil(waitMs / 1000)) } : {};
  return Response.json({ error: errorBody(error) }, { status, headers });
}

function codeOf(error: unknown): string {
  if (error instanceof BadRequest) return error.fault;
  if (error instanceof NoSuchModel) return "model_not_found";
  if (error instanceof PromptTooLong) return "context_length_exceeded";
  return error instanceof DcnrError ? answers[error.code][1] : "internal_error";
}

function paramOf(error: unknown): string | null {
  if (error instanceof BadRequest) return error.param ?? null;
  if (error instanceof BadSchema) return "response_format";
  return error instanceof NoSuchModel ? "model" : null;
}
