// Which models a pipeline may ask: those that are served, and those that come back when somebody asks.

import assert from "node:assert/strict";
import { test } from "node:test";
import type { Client } from "../../client/client.ts";
import { realWorld } from "../../system/world.ts";
import { networkOutside } from "./pipelines.ts";

function models(served: readonly object[]) {
  const client = {
    models: {
      list: async () => served,
      describe: async () => ({ definition: "d", states: [] }),
    },
  } as unknown as Client;
  const { signal } = new AbortController();
  return networkOutside({ client, world: realWorld(), signal, folder: ".", folders: [] }).models;
}

const asleep = { name: "asleep", replicas: 0, mostReplicas: 2, status: "stopped", context: 8 };
const awake = { name: "awake", replicas: 1, mostReplicas: 0, status: "running", context: 8 };
const ended = { name: "ended", replicas: 0, mostReplicas: 0, status: "stopped", context: 8 };

test("a model that has gone to no replica is asked, and has the identity that it had", async () => {
  const at = models([asleep, awake]);
  const [sleeping, running] = [await at.look("asleep"), await at.look("awake")];
  assert.equal(sleeping.identity, running.identity, "what is not asked again does not depend on who is awake");
});

test("one that was stopped, failed or never was is refused, with those that could be asked", async () => {
  const at = models([asleep, awake, ended, { ...awake, name: "broken", status: "failed" }]);
  for (const name of ["ended", "broken", "unknown"])
    await assert.rejects(at.look(name), new RegExp(`the model ${name} is not served, only asleep, awake: dcnr serve`));
});
