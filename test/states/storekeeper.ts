// A blob store behind a line of a given speed, for processes that store states: grants, checks and counts as an
// orchestrator does, and forgets nothing between two of them.

import { createServer, connect as dial, type Server as TcpServer } from "node:net";
import { setTimeout as sleep } from "node:timers/promises";
import { fail } from "../../src/core/errors.ts";
import { parseSha256 } from "../../src/core/ids.ts";
import { storedState } from "../../src/orchestrator/sessions/stored-states.ts";
import { BlobAction, PNodeService } from "../../src/protocol/gen/dcnr/v1/pnode_pb.ts";
import { openGrpcNetwork } from "../../src/protocol/grpc.ts";
import { service } from "../../src/protocol/network.ts";
import { blobHttpHandler } from "../../src/store/blobs/blob-http.ts";
import { openDirectoryBlobs } from "../../src/store/blobs/directory.ts";
import { backgroundTimers } from "../../src/system/timers.ts";
import { realWorld } from "../../src/system/world.ts";

const grantLifetimeMs = 15 * 60_000;

export interface Storekeeper {
  readonly address: string;
  /** Where blobs go to, by the slow line. */
  readonly origin: string;
  /** Bytes that went to the store by the line so far. */
  readonly sentBytes: () => number;
  /** States that are durable, by step. */
  readonly durable: ReadonlyMap<number, string>;
  close(): Promise<void>;
}

/** `bytesPerSecond` 0: as fast as it goes. */
export async function openStorekeeper(path: string, bytesPerSecond: number): Promise<Storekeeper> {
  const network = openGrpcNetwork({ timers: backgroundTimers });
  let origin = "";
  const world = realWorld({ logFormat: "none" });
  const blobs = await openDirectoryBlobs({ path, world, baseUrl: () => origin });
  const durable = new Map<number, string>();
  const unused = async () => fail("unimplemented", "nobody asks for this here");
  const served = service(PNodeService, {
    attach: unused,
    pulse: unused,
    resolve: unused,
    measureLine: unused,
    describeSession: unused,
    recordDurable: async ({ state, stateBytes, step }) => {
      const hash = parseSha256(state, "the state");
      const { bytes } = await storedState(blobs.states, hash, (reason) => fail("aborted", reason));
      if (bytes !== Number(stateBytes)) fail("invalid_argument", `it has ${bytes} bytes, not ${stateBytes}`);
      durable.set(Number(step), state);
      return { accepted: true };
    },
    grantBlob: async ({ hash: text, bytes, action }) => {
      const hash = parseSha256(text, "the blob");
      const stored = await blobs.states.size(hash);
      if (action === BlobAction.UPLOAD) {
        if (stored === Number(bytes)) return { present: true };
        const { url } = await blobs.states.grant("upload", hash, Number(bytes), grantLifetimeMs);
        return { url };
      }
      if (stored === undefined) fail("not_found", `there is no blob ${hash}`);
      const { url } = await blobs.states.grant("download", hash, stored, grantLifetimeMs);
      return { url, bytes: BigInt(stored) };
    },
  });
  const server = await network.serve("127.0.0.1:0", [served], blobHttpHandler(blobs));
  const line = await openLine(Number(server.address.split(":").at(-1)), bytesPerSecond);
  origin = `http://127.0.0.1:${line.port}`;
  return {
    address: server.address,
    origin,
    sentBytes: line.sentBytes,
    durable,
    close: async () => {
      line.server.close();
      await network.close();
      await server.close();
      await blobs.close();
    },
  };
}

/** All connections share one line towards the server; answers are not slowed down. */
async function openLine(
  port: number,
  bytesPerSecond: number,
): Promise<{ server: TcpServer; port: number; sentBytes: () => number }> {
  let sent = 0;
  let freeAtMs = 0;
  const server = createServer((near) => {
    const far = dial(port, "127.0.0.1");
    far.pipe(near);
    for (const [one, other] of [
      [near, far],
      [far, near],
    ] as const) {
      one.on("error", () => other.destroy());
      one.on("close", () => other.destroy());
    }
    near.on("data", (piece) => {
      near.pause();
      freeAtMs =
        Math.max(freeAtMs, performance.now()) + (bytesPerSecond > 0 ? (piece.length / bytesPerSecond) * 1000 : 0);
      void sleep(Math.max(0, freeAtMs - performance.now())).then(() => {
        sent += piece.length;
        if (far.destroyed) return;
        if (far.write(piece)) near.resume();
        else far.once("drain", () => near.resume());
      });
    });
    near.on("end", () => far.end());
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const bound = server.address();
  return { server, port: typeof bound === "object" && bound ? bound.port : 0, sentBytes: () => sent };
}
