import { strict as assert } from "node:assert";
import { describe, it } from "node:test";
import { base32, isKeyId, keyIdOf } from "./keys.ts";

describe("key ids", () => {
  it("are base32 as RFC 4648 defines it, in lower case and without padding", () => {
    const text = (value: string) => base32(new TextEncoder().encode(value));
    assert.deepEqual(["", "f", "fo", "foo", "foob", "fooba", "foobar"].map(text), [
      "",
      "my",
      "mzxq",
      "mzxw6",
      "mzxw6yq",
      "mzxw6ytb",
      "mzxw6ytboi",
    ]);
  });

  it("have 52 characters, and other texts are none", () => {
    const id = keyIdOf(new Uint8Array(44));
    assert.ok(isKeyId(id));
    for (const other of ["", id.slice(1), `${id}a`, id.toUpperCase(), `${id.slice(1)}1`]) assert.ok(!isKeyId(other));
  });
});
