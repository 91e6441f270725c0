import assert from "node:assert/strict";
import { test } from "node:test";
import type { KeyId } from "../../core/ids.ts";
import { keyIdOf } from "../../core/keys.ts";
import { silentLog, type World } from "../../core/world.ts";
import { openMemoryStore } from "../../store/memory.ts";
import { newIdentity, succeeded } from "../../system/keys.ts";
import { challengeStatement, Proofs } from "./proofs.ts";

const network = newIdentity();
const person = newIdentity();
const from = { address: "192.0.2.7" };

function stage(networkKeys: readonly KeyId[] = [network.id], store = openMemoryStore(), now = { ms: 1_000 }) {
  let drawn = 0;
  const world: World = {
    clock: { wallMs: () => now.ms, monotonicMs: () => now.ms },
    chance: { uniform: () => 0.5, bytes: (count) => new Uint8Array(count).fill(++drawn) },
    timers: { after: () => () => {} },
    log: silentLog,
  };
  const open = (incarnation: string) => new Proofs(store, world, incarnation, () => networkKeys);
  return { open, now, one: open("one"), other: open("other") };
}

function answerTo(nonce: string, as = person, networkKey: string = network.id) {
  const { publicKey, former = [] } = as;
  const signature = as.sign(challengeStatement(networkKey, nonce, keyIdOf(publicKey)));
  return { publicKey, former, nonce, signature };
}

const refusedAs = (message: RegExp) => ({ code: "unauthenticated", message });

test("a token stands for the key that signed the challenge, at every orchestrator, until it expires", async () => {
  const { one, other, now } = stage();
  const { id, token, expiresWallMs } = await one.prove(answerTo(one.challenge(from).nonce), from);
  assert.equal(id, person.id);
  for (const proofs of [one, other])
    assert.deepEqual(await proofs.read({ address: "198.51.100.1" }, `Bearer ${token}`), {
      address: "198.51.100.1",
      id: person.id,
    });
  assert.deepEqual(await one.read(from, undefined), from);
  assert.deepEqual(await one.read(from, "Bearer dcnr-000000000000-x"), from, "an API key is somebody else's affair");
  now.ms = expiresWallMs;
  await assert.rejects(one.read(from, `Bearer ${token}`), refusedAs(/has expired: prove it anew/));
});

test("a challenge is for one answer, one minute, one orchestrator and whoever asked for it", async () => {
  const { one, other, now } = stage();
  const { nonce } = one.challenge(from);
  await assert.rejects(other.prove(answerTo(nonce), from), refusedAs(/not of this orchestrator/));
  await assert.rejects(
    one.prove(answerTo(nonce), { address: "203.0.113.9" }),
    refusedAs(/not one that was put to you/),
  );
  await one.prove(answerTo(nonce), from);
  await assert.rejects(one.prove(answerTo(nonce), from), refusedAs(/answered before/));
  await assert.rejects(one.prove(answerTo(nonce, newIdentity()), from), refusedAs(/answered before/));
  const late = one.challenge(from).nonce;
  now.ms += 60_000;
  await assert.rejects(one.prove(answerTo(late), from), refusedAs(/has expired: ask for another/));
  const [incarnation, , random, tag] = late.split(".");
  const longer = `${incarnation}.${now.ms + 60_000}.${random}.${tag}`;
  await assert.rejects(one.prove(answerTo(longer), from), refusedAs(/not one that was put to you/));
  for (const nonsense of ["", "one", "one...", `one.${"9".repeat(300)}.x.y`])
    await assert.rejects(one.prove(answerTo(nonsense), from), { code: "unauthenticated" });
});

test("an answer for another network, of another key, or to another challenge is refused", async () => {
  const { one } = stage();
  const fresh = () => one.challenge(from).nonce;
  const unsigned = refusedAs(/the signature is not of this key/);
  await assert.rejects(one.prove(answerTo(fresh(), person, newIdentity().id), from), unsigned);
  await assert.rejects(one.prove({ ...answerTo(fresh()), publicKey: newIdentity().publicKey }, from), unsigned);
  await assert.rejects(one.prove({ ...answerTo(fresh()), signature: answerTo(fresh()).signature }, from), unsigned);
  await assert.rejects(one.prove({ ...answerTo(fresh()), publicKey: new Uint8Array(44) }, from), unsigned);
  await assert.rejects(one.prove({ ...answerTo(fresh()), publicKey: new Uint8Array(4_000) }, from), unsigned);
});

test("a token of another network, a changed one, or one beside another key is refused", async () => {
  const { one } = stage();
  const elsewhere = stage().one;
  const { token } = await one.prove(answerTo(one.challenge(from).nonce), from);
  const foreign = (await elsewhere.prove(answerTo(elsewhere.challenge(from).nonce), from)).token;
  // Both stages draw alike, so that only the draw of the secret tells them apart.
  const { open } = stage();
  open("a third");
  await assert.rejects(open("a fourth").read(from, `Bearer ${foreign}`), refusedAs(/not of this network/));
  const [prefix, open64, tag] = token.split(".");
  const altered = Buffer.from(
    Buffer.from(open64 as string, "base64url")
      .toString()
      .replace(person.id, newIdentity().id),
  ).toString("base64url");
  await assert.rejects(one.read(from, `Bearer ${prefix}.${altered}.${tag}`), refusedAs(/not of this network/));
  await assert.rejects(one.read({ ...from, id: network.id }, `Bearer ${token}`), refusedAs(/one key and the token/));
});

test("a key that has succeeded another proves the id of the first, and the network may be known by any of its keys", async () => {
  const next = succeeded(network);
  const { one } = stage([keyIdOf(next.publicKey), network.id]);
  const heir = succeeded(person);
  for (const known of [network.id, keyIdOf(next.publicKey)]) {
    const { token, id } = await one.prove(answerTo(one.challenge(from).nonce, heir, known), from);
    assert.equal(id, person.id);
    assert.deepEqual((await one.read(from, `Bearer ${token}`)).keys, [person.id, keyIdOf(heir.publicKey)]);
  }
  const { former: _, ...alone } = heir;
  const { id } = await one.prove(answerTo(one.challenge(from).nonce, alone), from);
  assert.equal(id, keyIdOf(heir.publicKey), "without the older one's word it is somebody of its own");
});

test("an address that proves keys without end keeps nobody else from proving one", async () => {
  const { one, now } = stage();
  const prove = (caller: { address: string }, as = person) =>
    one.prove(answerTo(one.challenge(caller).nonce, as), caller);
  for (let answers = 0; answers < 200; answers++) await prove(from);
  await assert.rejects(prove(from), { code: "resource_exhausted" });
  await prove({ address: "198.51.100.1" }, newIdentity());
  now.ms += 60_001;
  await prove(from);
});
