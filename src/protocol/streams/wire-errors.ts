// Our errors as gRPC's status and back: the code, the sentence and what trying again is worth cross the wire, nothing
// else does. Knows nothing of Connect, so that whoever only calls others does not load it.

import { DcnrError, type ErrorCode, isOutlook } from "../../core/errors.ts";

/** By gRPC's numbers, which are Connect's, too. */
const codes: Readonly<Record<ErrorCode, number>> = {
  cancelled: 1,
  invalid_argument: 3,
  deadline_exceeded: 4,
  not_found: 5,
  already_exists: 6,
  permission_denied: 7,
  resource_exhausted: 8,
  failed_precondition: 9,
  aborted: 10,
  out_of_range: 11,
  unimplemented: 12,
  internal: 13,
  unavailable: 14,
  data_loss: 15,
  unauthenticated: 16,
};

const names = new Map<number, ErrorCode>(Object.entries(codes).map(([name, code]) => [code, name as ErrorCode]));

/** Sent only when it is not what the code tells. */
export const outlookHeader = "dcnr-outlook";

/** How a call ended: gRPC's code, 0 for well. */
export interface CallStatus {
  readonly code: number;
  readonly message: string;
  /** Empty if it is what the code tells. */
  readonly outlook: string;
}

/** What a caller may know of a failure: expected ones as they are, others without inner detail. */
export function statusOf(thrown: unknown): CallStatus {
  if (!(thrown instanceof DcnrError))
    return {
      code: codes.internal,
      message: "internal error: see the log of the process that answered",
      outlook: "",
    };
  return { code: codes[thrown.code], message: thrown.message, outlook: thrown.isUnusual ? thrown.outlook : "" };
}

/** How we call what a status's number stands for. */
export function codeOf(status: number): ErrorCode {
  return names.get(status) ?? "internal";
}

/** What a server says of itself with gRPC's status; undefined if all went well. */
export function fromStatus(status: number, message: string, outlook: unknown, address: string): DcnrError | undefined {
  if (status === 0) return undefined;
  const options = isOutlook(outlook) ? { outlook } : {};
  return new DcnrError(codeOf(status), message || `the call to ${address} failed`, options);
}

/** An error of a socket, a connection or a stream: the other end was not reached, or is not any more. */
export function brokenBy(thrown: Error, address: string): DcnrError {
  const options = { cause: thrown };
  for (let error: unknown = thrown; error instanceof Error; error = error.cause) {
    // Ours already: the other end was not who it should be.
    if (error instanceof DcnrError) return error;
    const code = (error as NodeJS.ErrnoException).code ?? "";
    if (unknownNames.has(code))
      return new DcnrError("unavailable", `no machine is known by the name in ${address}: check its spelling`, options);
    if (neverReached.has(code))
      return new DcnrError(
        "unavailable",
        `nothing answers at ${address}: check the address and that the process runs there`,
        options,
      );
    if (unvouched.has(code))
      return new DcnrError(
        "unavailable",
        `no authority vouches for the certificate that ${address} shows: leave out https:// for an orchestrator, which is known by its key`,
        options,
      );
    if (code.startsWith("ERR_SSL_") || code === "EPROTO")
      return new DcnrError(
        "unavailable",
        `what answers at ${address} does not speak TLS: leave out https://, or ask for the address of its proxy`,
        options,
      );
  }
  return new DcnrError("unavailable", `the connection to ${address} broke: ${thrown.message}`, options);
}

const unknownNames: ReadonlySet<string> = new Set(["ENOTFOUND", "EAI_AGAIN"]);
/** How TLS names certificates that browsers would warn of. */
const unvouched: ReadonlySet<string> = new Set([
  "DEPTH_ZERO_SELF_SIGNED_CERT",
  "SELF_SIGNED_CERT_IN_CHAIN",
  "UNABLE_TO_VERIFY_LEAF_SIGNATURE",
  "UNABLE_TO_GET_ISSUER_CERT_LOCALLY",
  "ERR_TLS_CERT_ALTNAME_INVALID",
  "CERT_HAS_EXPIRED",
]);
const neverReached: ReadonlySet<string> = new Set(["ECONNREFUSED", "EHOSTUNREACH", "ENETUNREACH", "ETIMEDOUT"]);

/** How the operating system names it. */
export const refused = "ECONNREFUSED";

/** Nobody listens at the address, so the process is gone. One that is merely out of reach refuses nothing. */
export function isRefused(thrown: unknown): boolean {
  for (let error = thrown; error instanceof Error; error = error.cause)
    if ((error as NodeJS.ErrnoException).code === refused) return true;
  return false;
}
