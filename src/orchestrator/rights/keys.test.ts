import assert from "node:assert/strict";
import { test } from "node:test";
import { base32 } from "../../core/keys.ts";
import { silentLog, type World } from "../../core/world.ts";
import { openMemoryStore } from "../../store/memory.ts";
import { ApiKeys } from "./keys.ts";

const dayMs = 86_400_000;

function stage() {
  let drawn = 0;
  const now = { ms: 0 };
  const chance = { uniform: () => 0.5, bytes: (count: number) => new Uint8Array(count).fill(++drawn) };
  const clock = { wallMs: () => now.ms, monotonicMs: () => now.ms };
  const world: World = { clock, chance, timers: { after: () => () => {} }, log: silentLog };
  const store = openMemoryStore();
  let writes = 0;
  const put = store.put.bind(store);
  store.put = (...args) => {
    writes++;
    return put(...args);
  };
  return { keys: new ApiKeys(store, world, true), other: new ApiKeys(store, world, true), now, writes: () => writes };
}

const far = { address: "192.0.2.7" };
const person = base32(new Uint8Array(32).fill(7)) as never;
const settled = () => new Promise((resolve) => setImmediate(resolve));

test("a key lets in whoever has its whole secret, and nobody who knows its id alone", async () => {
  const { keys } = stage();
  const { key, secret } = await keys.create({ name: "mine", scopes: ["generate"] });
  await keys.require("generate", `Bearer ${secret}`, far);
  for (const wrong of [`dcnr-${key.id}-`, `dcnr-${key.id}-guess`, `${secret}x`, secret.slice(0, -1)])
    await assert.rejects(keys.require("generate", `Bearer ${wrong}`, far), { code: "unauthenticated" });
});

test("a key opens what its scopes name, and all of it for an admin", async () => {
  const { keys } = stage();
  const { secret } = await keys.create({ name: "mine", scopes: ["generate"] });
  const admin = await keys.create({ name: "chief", scopes: ["admin"] });
  await assert.rejects(keys.require("train", `Bearer ${secret}`, far), { code: "permission_denied" });
  await keys.require("train", `Bearer ${admin.secret}`, far);
  await assert.rejects(keys.require("generate", undefined, far), { code: "unauthenticated" });
});

test("a key works until it expires and says when it did", async () => {
  const { keys, now } = stage();
  const { secret } = await keys.create({ name: "guest", scopes: ["read"], lifetimeMs: 2 * dayMs });
  now.ms = 2 * dayMs - 1;
  await keys.require("read", `Bearer ${secret}`, far);
  now.ms = 4 * dayMs;
  await assert.rejects(keys.require("read", `Bearer ${secret}`, far), {
    code: "unauthenticated",
    message: /"guest" expired 2 d 0 h ago: ask an operator/,
  });
});

test("a person's own key is good for what it was admitted for, without any secret, and for nothing before or after", async () => {
  const { keys, other, now } = stage();
  const caller = { ...far, id: person };
  await assert.rejects(keys.require("train", undefined, caller), {
    code: "unauthenticated",
    message: /dcnr key admit/,
  });
  await keys.admit(person, { name: "Ada", scopes: ["train"], networks: ["gpt"], ownOnly: true });
  const { key, owner, networks, ownOnly } = await keys.require("train", undefined, caller);
  assert.deepEqual({ key, owner, networks, ownOnly }, { key: person, owner: "Ada", networks: ["gpt"], ownOnly: true });
  await assert.rejects(keys.require("admin", undefined, caller), { code: "permission_denied" });
  await assert.rejects(keys.require("train", `Bearer dcnr-${"0".repeat(12)}-x`, caller), { code: "unauthenticated" });
  await keys.admit(person, { name: "Ada", scopes: ["admin"] });
  await keys.require("admin", undefined, caller);
  await other.delete(person);
  now.ms += 5_000;
  await assert.rejects(keys.require("train", undefined, caller), { code: "unauthenticated" });
});

test("the last use is noted once an hour, however often and at however many orchestrators a key is used", async () => {
  const { keys, other, now, writes } = stage();
  const { secret } = await keys.create({ name: "mine", scopes: ["read"] });
  const before = writes();
  now.ms = 10_000;
  for (let i = 0; i < 1_000; i++) await keys.require("read", `Bearer ${secret}`, far);
  await settled();
  for (let i = 0; i < 1_000; i++) await other.require("read", `Bearer ${secret}`, far);
  await settled();
  assert.equal(writes() - before, 1);
  assert.equal((await keys.list())[0]?.lastUsedWallMs, 10_000);
  now.ms += 3_600_000;
  await other.require("read", `Bearer ${secret}`, far);
  await settled();
  assert.equal((await keys.list())[0]?.lastUsedWallMs, now.ms);
  assert.equal(writes() - before, 2);
});

test("keys need a scope that there is, and names that fit", async () => {
  const { keys } = stage();
  const refused = (wish: Partial<Parameters<ApiKeys["create"]>[0]>) =>
    assert.rejects(keys.create({ name: "mine", scopes: ["read"], ...wish }), { code: "invalid_argument" });
  await refused({ scopes: [] });
  await refused({ scopes: ["everything"] });
  await refused({ owner: "x".repeat(101) });
  await refused({ networks: Array.from({ length: 101 }, String) });
  await assert.rejects(keys.admit("somebody", { name: "x", scopes: ["read"] }), { code: "invalid_argument" });
});
