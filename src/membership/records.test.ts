import assert from "node:assert/strict";
import { test } from "node:test";
import { create, toBinary } from "@bufbuild/protobuf";
import type { KeyId } from "../core/ids.ts";
import { keyIdOf } from "../core/keys.ts";
import { NewsSchema, type SignedRecord } from "../protocol/gen/dcnr/v1/gossip_pb.ts";
import { newIdentity, succeeded, verifySignature } from "../system/keys.ts";
import { backgroundTimers } from "../system/timers.ts";
import { bytesOfNews, type Facts, type Member } from "./member.ts";
import { NetworkKey, type Shown } from "./network-key.ts";
import { type Judge, judge, permit, recordOf, seal } from "./records.ts";
import { newsToWire, Reader } from "./wire.ts";

const network = newIdentity();
const maple = newIdentity();
const oak = newIdentity();
const checks = { verify: verifySignature, idOf: keyIdOf };
const time = { seconds: 1_000_000 };
const knownBy = (expected: KeyId, shown: Shown = network): Judge => ({
  ...checks,
  network: NetworkKey.of(expected, shown, checks, () => time.seconds) as NetworkKey,
});
const keys = knownBy(network.id);
const facts: Facts = {
  name: "maple",
  routes: ["192.168.1.20:7701"],
  roles: ["pnode"],
  numerics: ["native-1-avx2", "portable-3"],
  cores: 8,
  memoryBytes: 16 * 2 ** 30,
  gflops: 120,
  load: 0.5,
  region: "eu-west",
};
const farSeconds = 4_000_000_000;

function recordBy(identity = maple, more: Partial<Facts> = {}, permitted = identity.id as string): Member {
  const self = { id: identity.id, incarnation: "0011223344556677", identity };
  return seal(self, network.id, { ...facts, ...more }, 7, { permit: permit(network, permitted, farSeconds) });
}

function refusal(signed: SignedRecord): string {
  const judged = judge(signed, keys);
  assert.equal(typeof judged, "string", "it is refused");
  return judged as string;
}

test("what a member says of itself is believed by whoever knows the network's key", () => {
  const judged = judge(recordBy().signed, keys);
  assert.ok(typeof judged !== "string");
  assert.equal(judged.id, maple.id);
  assert.deepEqual({ ...judged.routes }, { ...facts.routes });
  assert.equal(judged.sequence, 7);
  assert.equal(judged.load, 0.5);
});

test("a record takes some 300 bytes, and no more than its budget counts", () => {
  const member = recordBy();
  const [wire] = newsToWire([{ kind: "record", member }]);
  const length = toBinary(NewsSchema, create(NewsSchema, wire)).length;
  assert.ok(length < 420, `${length} bytes`);
  assert.ok(Math.abs(length - bytesOfNews({ kind: "record", member })) <= 8, `${length} bytes`);
  const accusation = { kind: "suspect" as const, id: maple.id, sequence: 7, by: 1 };
  const [told] = newsToWire([accusation]);
  assert.ok(Math.abs(toBinary(NewsSchema, create(NewsSchema, told)).length - bytesOfNews(accusation)) <= 8);
});

test("a record that its subject did not sign is refused", () => {
  const { signed } = recordBy();
  const changed = signed.record.slice();
  changed[changed.length - 5] = (changed[changed.length - 5] as number) ^ 1;
  assert.notEqual(refusal({ ...signed, record: changed }), "");
  assert.match(refusal({ ...signed, signature: signed.signature.map((byte) => byte ^ 1) }), /signature/);
  // Signed by somebody else in its name.
  const self = { id: maple.id, incarnation: "00", identity: oak };
  const forged = seal(self, network.id, facts, 9, { permit: permit(network, maple.id, farSeconds) });
  assert.match(refusal(forged.signed), /not signed by its subject/);
});

test("nobody is a member whom the network's key has not permitted", () => {
  assert.match(refusal(recordBy(maple, {}, oak.id).signed), /permit/);
  const self = { id: maple.id, incarnation: "00", identity: maple };
  assert.match(refusal(seal(self, network.id, facts, 1, {}).signed), /no permit/);
  const own = seal(self, network.id, facts, 1, { permit: permit(maple, maple.id, farSeconds) });
  assert.match(refusal(own.signed), /permit/);
});

test("only the network's key makes an orchestrator, and it makes nothing else", () => {
  assert.match(refusal(recordBy(maple, { roles: ["orchestrator"] }).signed), /orchestrator/);
  const self = { id: "orchestrator-1", incarnation: "00", identity: network };
  const good = seal(self, network.id, { ...facts, roles: ["orchestrator"] }, 1, {});
  assert.equal((judge(good.signed, keys) as Member).key, network.id);
  assert.match(refusal(seal(self, network.id, facts, 1, {}).signed), /orchestrators alone/);
});

test("a record of another network is worth nothing here", () => {
  const other = newIdentity();
  const self = { id: maple.id, incarnation: "00", identity: maple };
  const foreign = seal(self, other.id, facts, 1, { permit: permit(other, maple.id, farSeconds) });
  assert.match(refusal(foreign.signed), /signature/);
});

test("what is too long is refused unread, and one's own words are cut", () => {
  const { signed } = recordBy();
  assert.match(refusal({ ...signed, record: new Uint8Array(100_000) }), /too long/);
  assert.match(refusal({ ...signed, publicKey: new Uint8Array(1_000) }), /too long/);
  assert.match(refusal({ ...signed, record: Uint8Array.of(255, 255, 255) }), /cannot be read/);
  const wordy = recordBy(maple, { name: "n".repeat(500), region: "r".repeat(500), routes: Array(50).fill("h:1") });
  assert.equal(recordOf(wordy).name.length, 64);
  assert.ok(typeof judge(wordy.signed, keys) !== "string");
});

test("a machine whose key was replaced is believed under its id; whoever has seen the newer key refuses the older one and other heirs", () => {
  const next = succeeded(maple);
  const after = recordBy(next);
  const judged = judge(after.signed, keys);
  assert.ok(typeof judged !== "string", String(judged));
  assert.deepEqual([judged.id, judged.key, judged.keys], [maple.id, maple.id, [maple.id, keyIdOf(next.publicKey)]]);
  const stranger = newIdentity();
  const claimed = { ...stranger, id: maple.id, former: next.former ?? [] };
  assert.match(refusal(recordBy(claimed).signed), /did not sign/);

  const known = new Map<string, Member>([[judged.id, judged]]);
  const refused: string[] = [];
  const hooks = { nowSeconds: () => time.seconds, onRefused: (why: string) => void refused.push(why) };
  const reader = new Reader(keys, backgroundTimers, (id) => known.get(id), hooks);
  for (const late of [maple, succeeded(maple)]) assert.equal(reader.record(recordBy(late).signed), undefined);
  assert.deepEqual(refused, Array(2).fill("the key that has signed it was replaced"));
  assert.equal(reader.record(recordBy(succeeded(next)).signed)?.id, maple.id);
});

test("whoever pinned the network's old key takes permits of its heir; those of the old one end, at once for whoever comes later", () => {
  const next = succeeded(network);
  const member = knownBy(network.id);
  const self = { id: maple.id, incarnation: "00", identity: maple };
  const by = (signer: typeof network) =>
    seal(self, network.id, facts, 1, { permit: permit(signer, maple.id, farSeconds) }).signed;
  const orchestratorBy = (signer: typeof network) =>
    seal({ id: "o1", incarnation: "00", identity: signer }, network.id, { ...facts, roles: ["orchestrator"] }, 2, {})
      .signed;
  assert.match(judge(by(next), member) as string, /permit/, "nobody has told it of the heir yet");
  assert.equal((judge(orchestratorBy(next), member) as Member).id, "o1", "an orchestrator's record tells it");
  assert.equal((judge(by(next), member) as Member).permittedUntil, farSeconds);
  assert.match(judge(orchestratorBy(network), member) as string, /was replaced/);
  assert.match(judge(orchestratorBy(succeeded(network)), member) as string, /was replaced/, "another heir is late");
  const before = judge(by(network), member) as Member;
  assert.ok(before.permittedUntil < farSeconds, "what the old key has permitted ends soon");
  time.seconds = before.permittedUntil + 1;
  assert.match(judge(by(network), member) as string, /permit/);

  for (const late of [knownBy(network.id, next), knownBy(keyIdOf(next.publicKey), next)]) {
    assert.equal((judge(by(next), late) as Member).id, maple.id);
    assert.equal((judge(orchestratorBy(next), late) as Member).key, network.id);
    assert.match(judge(by(network), late) as string, /permit/);
  }
  assert.equal(
    NetworkKey.of(newIdentity().id, next, checks, () => 0),
    undefined,
  );
});
