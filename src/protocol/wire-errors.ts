// Our errors as Connect errors and back: the code and the sentence cross the wire, nothing else does.

import { Code, ConnectError } from "@connectrpc/connect";
import { DcnrError, type ErrorCode } from "../core/errors.ts";

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

const names = new Map(Object.entries(codes).map(([name, code]) => [code, name as ErrorCode]));

/** What a caller may know of a failure: expected ones as they are, others without inner detail. */
export function toWire(thrown: unknown): ConnectError {
  if (thrown instanceof ConnectError) return thrown;
  if (thrown instanceof DcnrError) return new ConnectError(thrown.message, codes[thrown.code]);
  return new ConnectError("internal error: see the log of the process that answered", Code.Internal);
}

export function fromWire(thrown: unknown, address: string): DcnrError {
  if (thrown instanceof DcnrError) return thrown;
  const error = ConnectError.from(thrown);
  const code = names.get(error.code) ?? "internal";
  const text = error.rawMessage;
  if (code === "unavailable" && /ECONNREFUSED|ENOTFOUND|EHOSTUNREACH|ETIMEDOUT|EAI_AGAIN/.test(text))
    return new DcnrError(code, `nothing answers at ${address}: check the address and that the process runs there`, {
      cause: thrown,
    });
  return new DcnrError(code, text || `the call to ${address} failed`, { cause: thrown });
}

/** How the operating system names it. */
export const refused = "ECONNREFUSED";

/** Nobody listens at the address, so the process is gone. One that is merely out of reach refuses nothing. */
export function isRefused(thrown: unknown): boolean {
  for (let error = thrown; error instanceof Error; error = error.cause)
    if ((error as NodeJS.ErrnoException).code === refused) return true;
  return false;
}
