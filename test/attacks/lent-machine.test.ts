// A false orchestrator tries to use a machine that is lent: to call its owner's other machines, to have headers sent, to
// read what they answer, to fill the disk and the memory. Everything travels over real sockets; the owner's network is
// played by servers on loopback, which the owner of this machine did not name.

import assert from "node:assert/strict";
import { mkdtempSync, readdirSync, rmSync, statSync } from "node:fs";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, describe, it } from "node:test";
import { Bandwidth } from "../../src/core/bandwidth.ts";
import { DcnrError } from "../../src/core/errors.ts";
import { sha256 } from "../../src/core/hash.ts";
import type { Sha256 } from "../../src/core/ids.ts";
import type { World } from "../../src/core/world.ts";
import { openDiskCache } from "../../src/data/disk-cache.ts";
import { BlobClient } from "../../src/pnode/blob-client.ts";
import { BlobOrigins } from "../../src/pnode/blob-origins.ts";
import { timingsDefault } from "../../src/pnode/options.ts";
import { Orchestrators } from "../../src/pnode/orchestrators.ts";
import { PNodeService } from "../../src/protocol/gen/dcnr/v1/pnode_pb.ts";
import { openGrpcNetwork } from "../../src/protocol/grpc.ts";
import { service } from "../../src/protocol/network.ts";
import { Reach } from "../../src/protocol/routes/reach.ts";
import { digestAside } from "../../src/system/digest.ts";
import { backgroundTimers } from "../../src/system/timers.ts";
import { openHttpTransfer } from "../../src/system/wires/blob-transfer.ts";
import { realWorld } from "../../src/system/world.ts";

const secret = "the photos of the owner's children";
const scratch = mkdtempSync(join(tmpdir(), "dcnr-attacks-"));
after(() => rmSync(scratch, { recursive: true, force: true }));

interface Grant {
  url: string;
  headers?: Record<string, string>;
  bytes?: bigint;
}

interface Scene {
  /** What the false orchestrator answers from now on. */
  grants(grant: (hash: string) => Grant): void;
  /** What it said at registration. */
  told(...origins: string[]): void;
  /** A server of the owner's: what it was asked, and where it is. */
  readonly nas: { readonly asked: IncomingMessage[]; readonly port: number };
  /** A store that the machine may call, and how it answers. */
  readonly store: { readonly asked: IncomingMessage[]; readonly port: number; answer: Answer };
  readonly client: BlobClient;
  readonly folder: string;
}

type Answer = (request: IncomingMessage, response: ServerResponse) => void;

const diskBytes = 400_000;
/** Names as the machine's resolver gives them: the attacker owns "nas.evil.example". */
const addresses: Readonly<Record<string, string>> = {
  "nas.evil.example": "127.0.0.1",
  localhost: "127.0.0.1",
};

/** Its clock runs twenty times as fast: patience with a store that fails is half a minute, and here it always fails. */
function inAHurry(world: World): World {
  const { clock } = world;
  return { ...world, clock: { ...clock, monotonicMs: () => 20 * clock.monotonicMs() } };
}

async function scene(run: (scene: Scene) => Promise<void>, hurries = true): Promise<void> {
  const real = realWorld({ logFormat: "none" });
  const world = hurries ? inAHurry(real) : real;
  const network = openGrpcNetwork({ timers: backgroundTimers });
  let grant: (hash: string) => Grant = () => assert.fail("nothing was prepared");
  const never = async () => assert.fail("not asked for here");
  const orchestrator = await network.serve("127.0.0.1:0", [
    service(PNodeService, {
      attach: never,
      pulse: never,
      resolve: never,
      recordDurable: never,
      measureLine: never,
      describeSession: never,
      grantBlob: async ({ hash }) => ({ headers: {}, bytes: 5n, ...grant(hash) }),
    }),
  ]);
  const nas = await listening((_, response) => response.end(secret));
  const store = Object.assign(await listening((request, response) => store.answer(request, response)), {
    answer: ((_, response) => response.end()) as Answer,
  });
  const folder = mkdtempSync(join(scratch, "disk-"));
  const orchestrators = new Orchestrators(network, world, timingsDefault, [orchestrator.address]);
  const origins = new BlobOrigins(() => ["dcnr.example:7700"]);
  const reach = new Reach(["dcnr.example:7700"], [], (host, found) =>
    found(null, [{ address: addresses[host] ?? "8.8.8.8", family: 4 }]),
  );
  // The owner's orchestrator and its store are elsewhere; here they have to be found on loopback.
  const elsewhere = new Reach(["127.0.0.1:1"]);
  const strict = openHttpTransfer({ reach, stallMs: 2_000 });
  const local = openHttpTransfer({ reach: elsewhere, stallMs: 2_000 });
  const ofStore = (url: string) => (url.startsWith(`http://127.0.0.1:${store.port}/`) ? local : strict);
  const client = new BlobClient({
    ...{ pnode: "p1", orchestrators, origins, world, digest: digestAside },
    timings: { ...timingsDefault, retryMinMs: 1, retryMaxMs: 2 },
    bandwidth: new Bandwidth(world, 0),
    transfer: {
      upload: (to, content, signal) => ofStore(to.url).upload(to, content, signal),
      download: (from, into, signal) => ofStore(from.url).download(from, into, signal),
    },
    cache: await openDiskCache({ folder, bytesMax: diskBytes, clock: world.clock }),
  });
  try {
    await run({
      client,
      folder,
      nas,
      store,
      grants: (next) => {
        grant = next;
      },
      told: (...list) => origins.learn(list),
    });
  } finally {
    nas.close();
    store.close();
    await orchestrator.close();
    await network.close();
  }
}

async function listening(answer: Answer) {
  const asked: IncomingMessage[] = [];
  const server = createServer((request, response) => {
    asked.push(request);
    answer(request, response);
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const close = () => {
    server.closeAllConnections();
    server.close();
  };
  return { asked, port: (server.address() as AddressInfo).port, close };
}

const { signal } = new AbortController();

/** The error, which must tell nothing of what a server said. */
async function refused(what: Promise<unknown>, code: DcnrError["code"]): Promise<DcnrError> {
  const error = await what.then(
    () => assert.fail("it was answered"),
    (thrown: unknown) => thrown,
  );
  assert.ok(error instanceof DcnrError, String(error));
  assert.equal(error.code, code, error.message);
  for (let one: unknown = error; one instanceof Error; one = one.cause) {
    assert.doesNotMatch(`${one.message} ${JSON.stringify(one)}`, /photos|token=/);
  }
  return error;
}

describe("D: a false orchestrator", () => {
  it("cannot have the owner's network called: neither by number, nor by an origin it told, nor by a name of its own", () =>
    scene(async ({ client, nas, grants, told }) => {
      const places = [
        `127.0.0.1:${nas.port}`,
        `[::1]:${nas.port}`,
        `localhost:${nas.port}`,
        `nas.evil.example:${nas.port}`,
      ];
      const inside = ["192.168.1.9:5000", "10.0.0.1", "169.254.169.254", "[fd00:ec2::254]", "[fe80::1]"];
      for (const place of [...places, ...inside]) {
        grants(() => ({ url: `http://${place}/photos?token=x` }));
        await refused(client.fetch("s", sha256("x"), signal), "permission_denied");
      }
      told(...[...places, ...inside].map((place) => `http://${place}`));
      for (const place of [...places, ...inside]) {
        grants(() => ({ url: `http://${place}/photos?token=x` }));
        await refused(client.fetch("s", sha256("x"), signal), "permission_denied");
      }
      for (const url of ["file:///etc/passwd", "ftp://8.8.8.8/x", "data:text/plain,x", "not an address"]) {
        grants(() => ({ url }));
        await refused(client.fetch("s", sha256("x"), signal), "permission_denied");
      }
      assert.equal(nas.asked.length, 0);
    }));

  it("cannot lead the machine there by a redirect of a store that it may call", () =>
    scene(async ({ client, nas, store, grants, told }) => {
      told(`http://127.0.0.1:${store.port}`);
      store.answer = (_, response) =>
        response.writeHead(302, { location: `http://127.0.0.1:${nas.port}/photos` }).end(secret);
      grants(() => ({ url: `http://127.0.0.1:${store.port}/x?token=x` }));
      await refused(client.fetch("s", sha256("x"), signal), "unavailable");
      assert.equal(nas.asked.length, 0);
      assert.ok(store.asked.length > 0);
    }));

  it("cannot have headers sent that open doors", () =>
    scene(async ({ client, store, grants, told }) => {
      told(`http://127.0.0.1:${store.port}`);
      const url = `http://127.0.0.1:${store.port}/x`;
      for (const name of ["authorization", "cookie", "Metadata-Flavor", "x-aws-ec2-metadata-token", "host", "x y"]) {
        grants(() => ({ url, headers: { [name]: "1" } }));
        await refused(client.fetch("s", sha256("x"), signal), "permission_denied");
      }
      grants(() => ({ url, headers: { "content-type": "a\r\ncookie: b" } }));
      await refused(client.fetch("s", sha256("x"), signal), "permission_denied");
      assert.equal(store.asked.length, 0);
    }));

  it("learns nothing of what a server answered", () =>
    scene(async ({ client, store, grants, told }) => {
      told(`http://127.0.0.1:${store.port}`);
      grants(() => ({ url: `http://127.0.0.1:${store.port}/x?token=x` }));
      for (const status of [200, 401, 403, 404, 500]) {
        store.answer = (_, response) => response.writeHead(status, secret, { "x-photos": secret }).end(secret);
        const code = status === 200 ? "data_loss" : status === 404 ? "not_found" : "unavailable";
        await refused(client.fetch("s", sha256("x"), signal), code);
      }
    }));

  it("cannot fill memory or disk: what has another size is not fetched, and what is kept stays within what is lent", () =>
    scene(async ({ client, store, grants, told, folder }) => {
      told(`http://127.0.0.1:${store.port}`);
      const url = (hash: string) => `http://127.0.0.1:${store.port}/${hash}`;
      grants((hash) => ({ url: url(hash), bytes: 2n ** 31n }));
      await refused(client.fetch("s", sha256("x"), signal), "resource_exhausted");
      await refused(client.fetch("s", sha256("x"), signal, 5), "data_loss");
      assert.equal(store.asked.length, 0);
      const shards = new Map<Sha256, Uint8Array>();
      for (let i = 0; i < 40; i++) {
        const content = new Uint8Array(50_000).fill(i);
        shards.set(sha256(content), content);
      }
      store.answer = (request, response) => response.end(shards.get((request.url ?? "").slice(1) as Sha256));
      grants((hash) => ({ url: url(hash), bytes: 50_000n }));
      let most = 0;
      const watching = setInterval(() => {
        most = Math.max(most, bytesIn(folder));
      }).unref();
      const fetched = await Promise.all([...shards.keys()].map((hash) => client.fetch("s", hash, signal, 50_000)));
      clearInterval(watching);
      assert.equal(fetched.length, 40, "and all of it was of use");
      assert.ok(Math.max(most, bytesIn(folder)) <= diskBytes, `${most} bytes`);
      // This store answers: on a busy machine forty answers take longer than a patience that runs twenty times as fast.
    }, false));
});

function bytesIn(folder: string): number {
  const sizeOf = (name: string) => statSync(join(folder, name), { throwIfNoEntry: false })?.size ?? 0;
  return readdirSync(folder).reduce((sum, name) => sum + sizeOf(name), 0);
}
