// Two networks on one machine: neither machines, nor orchestrators, nor people, nor addresses of blobs of the one are worth
// anything in the other.

import assert from "node:assert/strict";
import { after, before, describe, it } from "node:test";
import { type DescMethod, getOption } from "@bufbuild/protobuf";
import { DcnrError } from "../../src/core/errors.ts";
import { access, Rule } from "../../src/protocol/gen/dcnr/v1/access_pb.ts";
import { BlobSpace } from "../../src/protocol/gen/dcnr/v1/common_pb.ts";
import { ExchangeService } from "../../src/protocol/gen/dcnr/v1/exchange_pb.ts";
import { BlobAction, PNodeService } from "../../src/protocol/gen/dcnr/v1/pnode_pb.ts";
import { ServingService } from "../../src/protocol/gen/dcnr/v1/serving_pb.ts";
import { SessionService } from "../../src/protocol/gen/dcnr/v1/session_pb.ts";
import type { BidiMethod, Network, ServerStreamMethod, UnaryMethod } from "../../src/protocol/network.ts";
import { withKey } from "../../src/protocol/routes/address.ts";
import { contractServices } from "../rights/contract.ts";
import { Lab, refused } from "./lab.ts";

const refusal = /^(permission_denied|unauthenticated|unimplemented)$/;
const everybodys: ReadonlySet<Rule> = new Set([Rule.OPEN, Rule.SELF]);

/** How an empty request of a method ends. */
async function codeOf(network: Network, address: string, method: DescMethod): Promise<string> {
  const options = { timeoutMs: 20_000 };
  try {
    if (method.methodKind === "unary") await network.call(address, method as UnaryMethod, {}, options);
    else if (method.methodKind === "server_streaming")
      for await (const _ of network.watch(address, method as ServerStreamMethod, {}, options)) break;
    else {
      const channel = network.open(address, method as BidiMethod, options);
      try {
        for await (const _ of channel.incoming) break;
      } finally {
        channel.close();
      }
    }
    return "let in";
  } catch (thrown) {
    return DcnrError.from(thrown).code;
  }
}

let ours: Lab;
let theirs: Lab;
let session = "";

before(async () => {
  ours = await Lab.open({ pnodes: 1 });
  theirs = await Lab.open({ pnodes: 1 });
  session = await ours.train();
});
after(async () => {
  await ours.close();
  await theirs.close();
});

describe("two networks on one machine", () => {
  it("do not take each other's machines for members", async () => {
    const machine = theirs.as(theirs.keys[0]);
    await refused(ours.call(machine, PNodeService.method.resolve, { session }), "permission_denied", /not registered/);
    const download = { session, hash: ours.session(session).identity.dataset, action: BlobAction.DOWNLOAD };
    const asked = ours.call(machine, PNodeService.method.grantBlob, { ...download, space: BlobSpace.DATASETS });
    await refused(asked, "permission_denied", /not registered/);
    const talk = async (network: Network) => {
      const channel = network.open(ours.pnodeAt(0), ExchangeService.method.exchange);
      try {
        await channel.send({ event: { case: "hello", value: { protocolMajor: 1 } } });
        for await (const _ of channel.incoming) break;
      } finally {
        channel.close();
      }
    };
    await refused(talk(machine), "permission_denied");
  });

  it("do not take each other's orchestrators for their own", async () => {
    const orchestrator = theirs.as(theirs.networkKey);
    const ask = orchestrator.call(
      ours.pnodeAt(0),
      ServingService.method.forwardTensors,
      { session },
      { timeoutMs: 5_000 },
    );
    await refused(ask, "permission_denied", /orchestrators/);
    // A machine of ours that is led to their orchestrator finds another key there than the one it joined.
    const led = withKey(theirs.orchestrator.address, ours.networkKey.id);
    const call = ours.as(ours.keys[0]).call(led, PNodeService.method.resolve, { session }, { timeoutMs: 5_000 });
    await assert.rejects(call, /key/);
  });

  it("do not know each other's people", async () => {
    const person = await theirs.person("admin");
    await refused(ours.call(person, SessionService.method.listStates, { session }), "unauthenticated");
  });

  it("open no method of the contract to anybody of the other that is not open to all", async () => {
    const callers = {
      "a machine of theirs": theirs.as(theirs.keys[0]),
      "an orchestrator of theirs": theirs.as(theirs.networkKey),
      "an administrator of theirs": await theirs.person("admin"),
    };
    const places = { "our orchestrator": ours.address, "a PNode of ours": ours.pnodeAt(0) };
    const closed = (await contractServices())
      .flatMap(({ methods }) => methods)
      // Whoever has a key may ask to become a member, as itself.
      .filter((method) => !everybodys.has(getOption(method, access).rule));
    assert.ok(closed.length > 60, `${closed.length} methods`);
    for (const [where, address] of Object.entries(places))
      for (const [who, network] of Object.entries(callers)) {
        const codes = await Promise.all(closed.map((method) => codeOf(network, address, method)));
        // What a place does not serve, nobody reaches there.
        for (const [index, { parent, name }] of closed.entries())
          assert.match(codes[index] as string, refusal, `${who} at ${parent.name}/${name} of ${where}`);
      }
  });

  it("do not serve each other's blobs, whatever address somebody was granted", async () => {
    const { dataset } = ours.session(session).identity;
    const bytes = (await ours.blobs.datasets.size(dataset)) as number;
    const { url, headers } = await ours.blobs.datasets.grant("download", dataset, bytes, 60_000);
    assert.equal((await fetch(url, { headers })).status, 200);
    // Even where the other has a blob of that name.
    const content = await ours.blobs.datasets.get(dataset);
    await theirs.blobs.datasets.put(dataset, content, bytes);
    const there = (address: string) => address.replace(ours.orchestrator.address, theirs.orchestrator.address);
    assert.notEqual(there(url), url);
    assert.ok([401, 403, 404].includes((await fetch(there(url), { headers })).status));
    const upload = await ours.blobs.states.grant("upload", dataset, bytes, 60_000);
    const init = { method: "PUT", headers: upload.headers, body: content.slice() };
    assert.ok([401, 403, 404].includes((await fetch(there(upload.url), init)).status));
    assert.equal(await theirs.blobs.states.size(dataset), undefined);
  });
});
