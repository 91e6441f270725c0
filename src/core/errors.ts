// The one error that expected failures use: a code for programs, a sentence for people.
// Bugs do not come through here: they fail an assertion (assert.ts).

/** The codes are gRPC's, so that an error crosses the wire without translation tables. */
export type ErrorCode =
  | "cancelled"
  | "invalid_argument"
  | "deadline_exceeded"
  | "not_found"
  | "already_exists"
  | "permission_denied"
  | "resource_exhausted"
  | "failed_precondition"
  | "aborted"
  | "out_of_range"
  | "unimplemented"
  | "internal"
  | "unavailable"
  | "data_loss"
  | "unauthenticated";

export class DcnrError extends Error {
  readonly code: ErrorCode;

  constructor(code: ErrorCode, message: string, options?: { cause?: unknown }) {
    super(message, options);
    this.name = "DcnrError";
    this.code = code;
  }

  /** Turns anything thrown into a DcnrError; what is one already stays as it is. */
  static from(thrown: unknown, code: ErrorCode = "internal"): DcnrError {
    if (thrown instanceof DcnrError) return thrown;
    const message = thrown instanceof Error ? thrown.message : String(thrown);
    return new DcnrError(code, message, { cause: thrown });
  }
}

/** Throws an expected failure. The sentence names the thing and what to do about it. */
export function fail(code: ErrorCode, message: string, cause?: unknown): never {
  throw new DcnrError(code, message, cause === undefined ? undefined : { cause });
}

export function hasCode(thrown: unknown, code: ErrorCode): boolean {
  return thrown instanceof DcnrError && thrown.code === code;
}

export function messageOf(thrown: unknown): string {
  return thrown instanceof Error ? thrown.message : String(thrown);
}
