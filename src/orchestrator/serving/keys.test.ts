import assert from "node:assert/strict";
import { test } from "node:test";
import { silentLog, type World } from "../../core/world.ts";
import { openMemoryStore } from "../../store/memory.ts";
import { ApiKeys } from "./keys.ts";

function keysOf(): ApiKeys {
  let drawn = 0;
  const chance = { uniform: () => 0.5, bytes: (count: number) => new Uint8Array(count).fill(++drawn) };
  const clock = { wallMs: () => 0, monotonicMs: () => 0 };
  const world: World = { clock, chance, timers: { after: () => () => {} }, log: silentLog };
  return new ApiKeys(openMemoryStore(), world, true);
}

const far = "192.0.2.7";

test("a key lets in whoever has its whole secret, and nobody who knows its id alone", async () => {
  const keys = keysOf();
  const { key, secret } = await keys.create("mine", ["generate"], 0);
  await keys.require("generate", `Bearer ${secret}`, far);
  for (const wrong of [`dcnr-${key.id}-`, `dcnr-${key.id}-guess`, `${secret}x`, secret.slice(0, -1)])
    await assert.rejects(keys.require("generate", `Bearer ${wrong}`, far), { code: "unauthenticated" });
});

test("a key opens what its scopes name, and all of it for an admin", async () => {
  const keys = keysOf();
  const { secret } = await keys.create("mine", ["generate"], 0);
  const admin = await keys.create("chief", ["admin"], 0);
  await assert.rejects(keys.require("train", `Bearer ${secret}`, far), { code: "permission_denied" });
  await keys.require("train", `Bearer ${admin.secret}`, far);
  await assert.rejects(keys.require("generate", undefined, far), { code: "unauthenticated" });
});
