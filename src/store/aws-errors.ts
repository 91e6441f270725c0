// AWS's errors as sentences, for the table and the bucket alike.

import { DcnrError, type ErrorCode, messageOf } from "../core/errors.ts";

const throttlings = [
  "ProvisionedThroughputExceededException",
  "ThrottlingException",
  "RequestLimitExceeded",
  "SlowDown",
  "TooManyRequestsException",
];

const refusals = ["AccessDenied", "AccessDeniedException", "InvalidAccessKeyId", "SignatureDoesNotMatch"];
const credentialFaults = [
  "CredentialsProviderError",
  "UnrecognizedClientException",
  "InvalidSignatureException",
  "ExpiredToken",
  "ExpiredTokenException",
];

export function isThrottled(thrown: unknown): boolean {
  return throttlings.includes(nameOf(thrown));
}

export function awsError(thrown: unknown, where: string): DcnrError {
  if (thrown instanceof DcnrError) return thrown;
  const [code, sentence] = explain(thrown, where);
  return new DcnrError(code, sentence, { cause: thrown });
}

function explain(thrown: unknown, where: string): [ErrorCode, string] {
  const name = nameOf(thrown);
  const detail = messageOf(thrown) || name;
  if (throttlings.includes(name))
    return ["unavailable", `the ${where} is throttled (${detail}): raise its capacity or try again later`];
  if (refusals.includes(name))
    return ["permission_denied", `the ${where} refused us (${detail}): check the rights of the AWS user`];
  if (credentialFaults.includes(name))
    return [
      "unauthenticated",
      `the ${where} has no valid credentials (${detail}): set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY`,
    ];
  if (name === "ResourceNotFoundException")
    return ["failed_precondition", `the ${where} is gone (${detail}): restart to create it anew`];
  if (name === "NoSuchBucket") return ["failed_precondition", `the ${where} does not exist: create it`];
  if (name === "ValidationException" || /region is missing/i.test(detail))
    return ["failed_precondition", `the ${where} cannot be used (${detail}): check its name and AWS_REGION`];
  // Timeouts, broken connections and failures of the server: the call may have been executed.
  return ["unavailable", `the ${where} did not answer (${detail}): check that it can be reached`];
}

function nameOf(thrown: unknown): string {
  const { name, code } = thrown as { name?: string; code?: string };
  return name && name !== "Error" ? name : (code ?? "Error");
}
