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

/**
 * What trying again is worth. `final`: nothing, whoever is asked. `elsewhere`: nothing where it failed, but another place
 * may do it. `passing`: the same may work later.
 */
export type Outlook = "final" | "elsewhere" | "passing";

/** Unless an error says otherwise. What is final stays so: nobody may be made to repeat what cannot work. */
const outlooks: Record<ErrorCode, Outlook> = {
  cancelled: "passing",
  invalid_argument: "final",
  deadline_exceeded: "passing",
  not_found: "final",
  already_exists: "final",
  permission_denied: "final",
  resource_exhausted: "elsewhere",
  failed_precondition: "final",
  // Somebody else was faster: read, decide and try again.
  aborted: "passing",
  out_of_range: "final",
  unimplemented: "final",
  // A bug of whoever answered; others may run another version, or be in another state.
  internal: "elsewhere",
  unavailable: "passing",
  data_loss: "final",
  unauthenticated: "final",
};

export interface ErrorOptions {
  readonly cause?: unknown;
  /** If it is not what the code says. */
  readonly outlook?: Outlook;
}

export class DcnrError extends Error {
  readonly code: ErrorCode;
  readonly outlook: Outlook;

  constructor(code: ErrorCode, message: string, options: ErrorOptions = {}) {
    super(message, "cause" in options ? { cause: options.cause } : undefined);
    this.name = "DcnrError";
    this.code = code;
    const usual = outlooks[code];
    this.outlook = usual === "final" ? usual : (options.outlook ?? usual);
  }

  /** Whether the outlook is another than the code tells. */
  get isUnusual(): boolean {
    return this.outlook !== outlooks[this.code];
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

export function isOutlook(text: unknown): text is Outlook {
  return text === "final" || text === "elsewhere" || text === "passing";
}

/** What is not an expected failure is a bug, and nobody knows what it would do next time. */
export function outlookOf(thrown: unknown): Outlook {
  return thrown instanceof DcnrError ? thrown.outlook : outlooks.internal;
}

export function hasCode(thrown: unknown, code: ErrorCode): boolean {
  return thrown instanceof DcnrError && thrown.code === code;
}

export function messageOf(thrown: unknown): string {
  return thrown instanceof Error ? thrown.message : String(thrown);
}
