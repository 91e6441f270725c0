// Names from outside, and names of replicas, which no session can have.

import assert from "node:assert/strict";
import { test } from "node:test";
import { isReplicaId, parseId, parseWorkloadId, replicaIdOf } from "./ids.ts";

test("replicas and sessions have names of their own", () => {
  const replica = replicaIdOf("my-model.v2", "0123456789ab");
  assert.ok(isReplicaId(replica));
  assert.equal(parseWorkloadId(replica), replica);
  assert.equal(parseWorkloadId("mlp-0123456789ab"), "mlp-0123456789ab");
  assert.ok(!isReplicaId("mlp-0123456789ab"));
  assert.throws(() => parseId(replica, "the session"), /may only use letters/);
});

test("what is no name of a replica is refused", () => {
  for (const text of ["@0123456789ab", "model@", "model@xyz", "a/b@0123456789ab", "a@b@0123456789ab", "m@0123456789AB"])
    assert.throws(() => parseWorkloadId(text), { code: "invalid_argument" }, text);
});

test("a word that every object answers to is no name: records that are kept by name could not tell it from an entry", () => {
  for (const word of ["constructor", "toString", "valueOf", "hasOwnProperty"])
    assert.throws(() => parseId(word, "the network's name"), /^(DcnrError: )?the network's name cannot be "/, word);
});
