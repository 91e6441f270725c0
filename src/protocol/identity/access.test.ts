import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { DcnrError, hasCode } from "../../core/errors.ts";
import { newIdentity } from "../../system/keys.ts";
import { backgroundTimers } from "../../system/timers.ts";
import { InferenceService } from "../gen/dcnr/v1/inference_pb.ts";
import { PNodeService } from "../gen/dcnr/v1/pnode_pb.ts";
import { SystemService } from "../gen/dcnr/v1/system_pb.ts";
import { openGrpcNetwork } from "../grpc.ts";
import type { Gate, Network, ServedService } from "../network.ts";
import { withKey } from "../routes/address.ts";

const [server, member, stranger] = [newIdentity(), newIdentity(), newIdentity()];

const gate: Gate = {
  key: async (_, scope, authorization) => {
    if (authorization !== `Bearer ${scope}`) throw new DcnrError("unauthenticated", `a key for ${scope} is needed`);
    return { scopes: [scope], key: "", owner: "" };
  },
  member: async ({ id }) => {
    if (id !== member.id) throw new DcnrError("permission_denied", "only members");
  },
  network: async () => {},
  orchestrator: async () => {
    throw new DcnrError("permission_denied", "only orchestrators");
  },
};

/** Whatever gets through is counted and answered with nothing. */
function counted(calls: string[]): readonly ServedService[] {
  return [SystemService, InferenceService, PNodeService].map((descriptor) => ({
    descriptor,
    handlers: Object.fromEntries(
      descriptor.methods.map(({ localName, methodKind }) => [
        localName,
        methodKind === "server_streaming"
          ? async function* () {
              calls.push(localName);
              yield {};
            }
          : async () => {
              calls.push(localName);
              return {};
            },
      ]),
    ),
  }));
}

async function stage(
  run: (of: { address: string; calls: string[]; open: (as?: typeof member, key?: string) => Network }) => Promise<void>,
): Promise<void> {
  const calls: string[] = [];
  const opened: Network[] = [];
  const open = (identity?: typeof member, key?: string) => {
    const headers: Record<string, string> = key === undefined ? {} : { authorization: `Bearer ${key}` };
    const network = openGrpcNetwork({ timers: backgroundTimers, headers, ...(identity && { identity }) });
    opened.push(network);
    return network;
  };
  const listening = await open(server).serve("127.0.0.1:0", counted(calls), undefined, gate);
  try {
    await run({ address: listening.address, calls, open });
  } finally {
    for (const network of opened) await network.close();
    await listening.close();
  }
}

describe("rights", () => {
  it("are those of the contract: open to all, by key, by membership", () =>
    stage(async ({ address, calls, open }) => {
      await open().call(address, SystemService.method.getVersion, {});
      const models = { name: "m" };
      await assert.rejects(
        open().call(address, InferenceService.method.stopModel, models),
        /a key for train is needed/,
      );
      await open(undefined, "train").call(address, InferenceService.method.stopModel, models);
      const admin = open(undefined, "train").call(address, InferenceService.method.listApiKeys, {});
      await assert.rejects(admin, (error) => hasCode(error, "unauthenticated"));
      const session = { session: "s" };
      const resolve = PNodeService.method.resolve;
      const pinned = withKey(address, server.id);
      await assert.rejects(open().call(address, resolve, session), /is for machines that show a key/);
      await assert.rejects(open(stranger).call(pinned, resolve, session), /only members/);
      await open(member).call(pinned, resolve, session);
      assert.deepEqual(calls, ["getVersion", "stopModel", "resolve"]);
    }));

  it("hold for streams of both kinds", () =>
    stage(async ({ address, calls, open }) => {
      const watching = async () => {
        for await (const _ of open().watch(address, InferenceService.method.generate, {}));
      };
      await assert.rejects(watching(), /a key for generate is needed/);
      const attaching = async () => {
        for await (const _ of open().open(address, PNodeService.method.attach).incoming);
      };
      await assert.rejects(attaching(), /is for machines that show a key/);
      for await (const _ of open(stranger).open(withKey(address, server.id), PNodeService.method.attach).incoming);
      assert.deepEqual(calls, ["attach"]);
    }));

  it("hold for callers that speak JSON over plain HTTP, before their body is read", () =>
    stage(async ({ address, calls }) => {
      const url = `http://${address}/dcnr.v1.InferenceService/StopModel`;
      const refused = await fetch(url, {
        method: "POST",
        headers: { "content-type": "application/json" },
        // No JSON at all: nobody gets as far as reading it.
        body: "{".repeat(1_000_000),
      });
      assert.equal(refused.status, 401);
      assert.deepEqual(await refused.json(), { code: "unauthenticated", message: "a key for train is needed" });
      assert.deepEqual(calls, []);
    }));
});
