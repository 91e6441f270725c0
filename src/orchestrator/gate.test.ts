import assert from "node:assert/strict";
import { test } from "node:test";
import { hasCode } from "../core/errors.ts";
import { silentLog, type World } from "../core/world.ts";
import { InferenceService } from "../protocol/gen/dcnr/v1/inference_pb.ts";
import { gated } from "../protocol/identity/access.ts";
import type { ServedService } from "../protocol/network.ts";
import { openMemoryStore } from "../store/memory.ts";
import type { Context } from "./context.ts";
import type { Members } from "./fleet/attached/members.ts";
import { orchestratorGate } from "./gate.ts";
import { ApiKeys, type Scope } from "./rights/keys.ts";

let draws = 0;
const world: World = {
  clock: { wallMs: () => 0, monotonicMs: () => 0 },
  timers: { after: () => () => {} },
  chance: { bytes: (count) => new Uint8Array(count).fill(++draws), uniform: () => 0.5 },
  log: silentLog,
};

async function* streaming() {
  yield "done";
}

/** Every method of the service, behind the gate. */
function stage() {
  const keys = new ApiKeys(openMemoryStore(), world, true);
  const handlers = Object.fromEntries(
    InferenceService.methods.map(({ localName, methodKind }) => [
      localName,
      methodKind === "server_streaming" ? streaming : async () => "done",
    ]),
  );
  const open: ServedService = { descriptor: InferenceService, handlers };
  const gate = orchestratorGate({
    context: { mirror: {} } as Context,
    members: {} as Members,
    keys,
    network: { id: undefined },
  });
  const served = gated([open], gate)[0] as ServedService;
  const call = async (name: string, address: string, secret = "") => {
    const context = {
      caller: { address },
      signal: new AbortController().signal,
      header: () => secret && `Bearer ${secret}`,
    };
    const handler = served.handlers[name] as (request: unknown, context: unknown) => unknown;
    const answer = handler({}, context);
    if (!(Symbol.asyncIterator in (answer as object))) return answer;
    for await (const piece of answer as AsyncIterable<string>) return piece;
    return undefined;
  };
  return { keys, call };
}

const methods = InferenceService.methods.map(({ localName }) => localName);
const stranger = "203.0.113.9";

test("callers on the same machine need no key", async () => {
  const { call } = stage();
  for (const name of methods) for (const peer of ["127.0.0.1", "::1"]) assert.equal(await call(name, peer), "done");
});

test("from elsewhere a key opens what its scope says and nothing else", async () => {
  const { keys, call } = stage();
  const opens: Record<Scope, string[]> = {
    generate: ["embed", "forward", "generate"],
    read: ["describeState", "grantParts"],
    train: ["describeState", "grantParts", "registerModel", "serveModel", "stopModel"],
    admin: methods.filter((name) => name !== "listModels"),
  };
  for (const [scope, expected] of Object.entries(opens)) {
    const { secret } = await keys.create({ name: scope, scopes: [scope] });
    const open: string[] = [];
    for (const name of methods.filter((each) => each !== "listModels"))
      await call(name, stranger, secret).then(
        () => open.push(name),
        (error) => assert.ok(hasCode(error, "permission_denied"), String(error)),
      );
    assert.deepEqual(open.sort(), expected.sort(), scope);
  }
});

test("a key is its whole secret: another one under the same id opens nothing", async () => {
  const { keys, call } = stage();
  const { secret } = await keys.create({ name: "mine", scopes: ["admin"] });
  const changed = `${secret.slice(0, -1)}${secret.endsWith("A") ? "B" : "A"}`;
  assert.equal(await call("listApiKeys", stranger, secret), "done");
  for (const wrong of [changed, secret.slice(0, -1), `${secret}A`])
    await assert.rejects(call("listApiKeys", stranger, wrong), (error) => hasCode(error, "unauthenticated"));
});

test("without a key strangers may read which models there are, and no more", async () => {
  const { call } = stage();
  for (const name of methods) {
    if (name === "listModels") assert.equal(await call(name, stranger), "done");
    else await assert.rejects(call(name, stranger), (error) => hasCode(error, "unauthenticated"));
  }
});
