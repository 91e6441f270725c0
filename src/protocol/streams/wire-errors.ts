// Our errors as Connect errors and back: the code, the sentence and what trying again is worth cross the wire, nothing
// else does.

import { Code, ConnectError } from "@connectrpc/connect";
import { DcnrError, type ErrorCode, isOutlook } from "../../core/errors.ts";

const codes: Record<ErrorCode, Code> = {
  cancelled: Code.Canceled,
  invalid_argument: Code.InvalidArgument,
  deadline_exceeded: Code.DeadlineExceeded,
  not_found: Code.NotFound,
  already_exists: Code.AlreadyExists,
  permission_denied: Code.PermissionDenied,
  resource_exhausted: Code.ResourceExhausted,
  failed_precondition: Code.FailedPrecondition,
  aborted: Code.Aborted,
  out_of_range: Code.OutOfRange,
  unimplemented: Code.Unimplemented,
  internal: Code.Internal,
  unavailable: Code.Unavailable,
  data_loss: Code.DataLoss,
  unauthenticated: Code.Unauthenticated,
};

const names = new Map<number, ErrorCode>(Object.entries(codes).map(([name, code]) => [code, name as ErrorCode]));

/** Sent only when it is not what the code tells. */
export const outlookHeader = "dcnr-outlook";

/** What a caller may know of a failure: expected ones as they are, others without inner detail. */
export function toWire(thrown: unknown): ConnectError {
  if (thrown instanceof ConnectError) return thrown;
  if (thrown instanceof DcnrError)
    return new ConnectError(
      thrown.message,
      codes[thrown.code],
      thrown.isUnusual ? { [outlookHeader]: thrown.outlook } : undefined,
    );
  return new ConnectError("internal error: see the log of the process that answered", Code.Internal);
}

/** What a server says of itself with gRPC's status; undefined if all went well. */
export function fromStatus(status: number, message: string, outlook: unknown, address: string): DcnrError | undefined {
  if (status === 0) return undefined;
  const options = isOutlook(outlook) ? { outlook } : {};
  return new DcnrError(names.get(status) ?? "internal", message || `the call to ${address} failed`, options);
}

/** Failures of Connect's server, which answers whoever does not speak plain gRPC. */
export function fromConnect(thrown: unknown, peer: string): DcnrError {
  if (thrown instanceof DcnrError) return thrown;
  const { code, rawMessage } = ConnectError.from(thrown);
  return new DcnrError(names.get(code) ?? "internal", rawMessage || `the call from ${peer} failed`, { cause: thrown });
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
