import assert from "node:assert/strict";
import { once } from "node:events";
import { type AddressInfo, createServer, isIP } from "node:net";
import { describe, it } from "node:test";
import { hasCode } from "../../core/errors.ts";
import { ManualTimers } from "../connections/timers.testing.ts";
import { Health } from "../gen/grpc/health/v1/health_pb.ts";
import { openGrpcNetwork } from "../grpc.ts";
import { Reach, type Resolve } from "./reach.ts";

/** A world's names, each with what it leads to at the first look, at the second, and so on. */
function names(world: Readonly<Record<string, readonly (readonly string[])[]>>): Resolve {
  const looks = new Map<string, number>();
  return (host, found) => {
    const answers = world[host];
    const look = looks.get(host) ?? 0;
    looks.set(host, look + 1);
    const addresses = answers?.[Math.min(look, answers.length - 1)];
    if (addresses === undefined) found(new Error(`ENOTFOUND ${host}`), []);
    else
      found(
        null,
        addresses.map((address) => ({ address, family: isIP(address) })),
      );
  };
}

const look = (reach: Reach, host: string) =>
  new Promise<string>((resolve, reject) =>
    reach.lookup(host, { all: true }, (error, found) =>
      error ? reject(error) : resolve((found as { address: string }[]).map(({ address }) => address).join(" ")),
    ),
  );
const denied = (error: unknown) => hasCode(error, "permission_denied");
const refused = (reach: Reach, ...hosts: string[]) => {
  for (const host of hosts) assert.throws(() => reach.check(host), denied, host);
};
const allowed = (reach: Reach, ...hosts: string[]) => {
  for (const host of hosts) reach.check(host);
};

describe("a lent machine connects to", () => {
  const inside = [
    "127.0.0.1",
    "::1",
    "[::1]",
    "0.0.0.0",
    "10.0.0.1",
    "172.16.3.4",
    "192.168.1.9",
    "fd12::1",
    "fe80::1",
  ];
  const settings = ["169.254.169.254", "100.100.100.200", "fd00:ec2::254", "fe80::1%eth0"];

  it("public addresses alone if its owner named only such", () => {
    const reach = new Reach(["8.8.8.8:7700"]);
    allowed(reach, "8.8.8.8", "1.1.1.1", "2606:4700::1111", "[2606:4700::1111]");
    refused(reach, ...inside, ...settings, "::ffff:192.168.1.9", "::ffff:7f00:1");
  });

  it("the network of an orchestrator that its owner named by a private address, and no other", () => {
    const reach = new Reach(["192.168.1.20:7700"]);
    allowed(reach, "192.168.1.20", "192.168.1.9", "192.168.7.1", "8.8.8.8");
    refused(reach, "10.0.0.1", "172.16.3.4", "127.0.0.1", "fd12::1", ...settings);
    const six = new Reach(["[fd12:3456:789a::5]:7700"]);
    allowed(six, "fd12:3456:789a:1::9");
    refused(six, "fd12:3456:789b::9", "192.168.1.9", ...settings);
  });

  it("itself if its owner named an orchestrator on it", () => {
    const reach = new Reach(["127.0.0.1:7700"]);
    allowed(reach, "127.0.0.1", "::1");
    refused(reach, "192.168.1.9", ...settings);
  });

  it("networks that its owner opens, and even there to no place where machines find their own keys", () => {
    const reach = new Reach(["8.8.8.8:7700"], ["10.1.0.0/16", "fd00::/8", "100.64.0.0/10", "169.254.0.0/16"]);
    allowed(reach, "10.1.2.3", "fd12::1", "100.100.100.201");
    refused(reach, "10.2.0.1", "192.168.1.9", ...settings);
    allowed(new Reach(["169.254.7.7:7700"]), "169.254.7.7");
    refused(new Reach(["169.254.7.7:7700"]), "169.254.169.254");
    for (const network of ["10.1.0.0", "10.1.0.0/33", "home/16", "/8", "10.0.0.0/x"])
      assert.throws(
        () => new Reach([], [network]),
        (error: unknown) => hasCode(error, "invalid_argument"),
      );
  });

  it("what a name leads to, if all of it may be called", async () => {
    const reach = new Reach(
      ["dcnr.example:7700"],
      [],
      names({
        "dcnr.example": [["8.8.8.8"]],
        "store.example": [["1.1.1.1", "2606:4700::1111"]],
        "nas.example": [["192.168.1.9"]],
        "mixed.example": [["1.1.1.1", "127.0.0.1"]],
      }),
    );
    assert.equal(await look(reach, "store.example"), "1.1.1.1 2606:4700::1111");
    await assert.rejects(look(reach, "nas.example"), denied);
    await assert.rejects(look(reach, "mixed.example"), denied);
    await assert.rejects(look(reach, "nowhere.example"), /ENOTFOUND/);
  });

  it("nothing private by a name that led elsewhere when it was first asked", async () => {
    const resolve = names({ "evil.example": [["8.8.8.8"], ["192.168.1.9"], ["127.0.0.1"]] });
    const reach = new Reach(["evil.example:5000"], [], resolve);
    assert.equal(await look(reach, "evil.example"), "8.8.8.8");
    await assert.rejects(look(reach, "evil.example"), denied);
    await assert.rejects(look(reach, "evil.example"), denied);
    assert.deepEqual(reach.networks, []);
  });

  it("the network in which a named orchestrator was first found, so that a home's or a cluster's names work", async () => {
    const resolve = names({ orchestrator: [["10.96.0.7"]], s3: [["10.96.4.1"]] });
    const reach = new Reach(["orchestrator:7700"], [], resolve);
    await assert.rejects(look(reach, "s3"), denied, "not before the orchestrator was found");
    assert.equal(await look(reach, "orchestrator"), "10.96.0.7");
    assert.equal(await look(reach, "s3"), "10.96.4.1");
    assert.deepEqual(reach.networks, ["10.96.0.7/16"]);
  });
});

it("calls of a lent machine never reach a server of its owner's that nobody named", async () => {
  let connections = 0;
  const server = createServer((socket) => {
    connections++;
    socket.destroy();
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const { port } = server.address() as AddressInfo;
  const call = async (reach: Reach, address: string) => {
    const network = openGrpcNetwork({ timers: new ManualTimers(), reach });
    try {
      await network.call(address, Health.method.check, {});
    } finally {
      await network.close();
    }
  };
  try {
    const reach = new Reach(["dcnr.example:7700"], [], names({ "nas.example": [["127.0.0.1"]] }));
    await assert.rejects(call(reach, `127.0.0.1:${port}`), denied);
    await assert.rejects(call(reach, `nas.example:${port}`), denied);
    await assert.rejects(call(reach, `https://nas.example:${port}`), denied);
    assert.equal(connections, 0);
    const heard = once(server, "connection");
    await assert.rejects(call(new Reach([`127.0.0.1:${port}`]), `127.0.0.1:${port}`));
    await heard;
  } finally {
    server.close();
  }
});
