// Our errors as those of Connect's server, which answers whoever does not speak plain gRPC, and back.

import { ConnectError } from "@connectrpc/connect";
import { DcnrError } from "../../core/errors.ts";
import { codeOf, outlookHeader, statusOf } from "../streams/wire-errors.ts";

/** What a caller may know of a failure. */
export function toConnect(thrown: unknown): ConnectError {
  if (thrown instanceof ConnectError) return thrown;
  const { code, message, outlook } = statusOf(thrown);
  return new ConnectError(message, code, outlook === "" ? undefined : { [outlookHeader]: outlook });
}

export function fromConnect(thrown: unknown, peer: string): DcnrError {
  if (thrown instanceof DcnrError) return thrown;
  const { code, rawMessage } = ConnectError.from(thrown);
  return new DcnrError(codeOf(code), rawMessage || `the call from ${peer} failed`, { cause: thrown });
}
