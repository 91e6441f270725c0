import assert from "node:assert/strict";
import { test } from "node:test";
import { DcnrError } from "../../core/errors.ts";
import { brokenBy } from "./wire-errors.ts";

/** As Node tells it: an error of the stream, caused by one of the socket. */
function thrown(code: string): Error {
  const cause = Object.assign(new Error(`low-level words about ${code}`), { code });
  return new Error("The pending stream has been canceled", { cause });
}

const sentences: readonly (readonly [code: string, sentence: RegExp])[] = [
  ["ECONNREFUSED", /^nothing answers at there:1: check the address and that the process runs there$/],
  ["ETIMEDOUT", /^nothing answers at there:1/],
  ["ENOTFOUND", /^no machine is known by the name in there:1: check its spelling$/],
  ["EAI_AGAIN", /^no machine is known by the name/],
  ["ERR_SSL_WRONG_VERSION_NUMBER", /^what answers at there:1 does not speak TLS: leave out https:/],
  ["EPROTO", /^what answers at there:1 does not speak TLS/],
  ["DEPTH_ZERO_SELF_SIGNED_CERT", /^no authority vouches for the certificate that there:1 shows: leave out https:/],
  ["CERT_HAS_EXPIRED", /^no authority vouches for the certificate/],
];

test("what breaks a connection is told in words for people, never in those of the library below", () => {
  for (const [code, sentence] of sentences) {
    const { message, code: kind } = brokenBy(thrown(code), "there:1");
    assert.match(message, sentence, code);
    assert.doesNotMatch(message, /low-level|pending stream/);
    assert.equal(kind, "unavailable");
  }
});

test("what the other end proved not to be stays what it was called", () => {
  const ours = new DcnrError("permission_denied", "it shows another key");
  assert.equal(brokenBy(new Error("closed", { cause: ours }), "there:1"), ours);
});
