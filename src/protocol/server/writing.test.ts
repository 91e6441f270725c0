import assert from "node:assert/strict";
import { once } from "node:events";
import { type ClientHttp2Stream, connect, constants } from "node:http2";
import { describe, it } from "node:test";
import { ManualTimers } from "../connections/timers.testing.ts";
import { openGrpcNetwork } from "../grpc.ts";
import type { HttpHandler } from "../network.ts";
import { type GuestLimits, guestLimitsDefault } from "./limits.ts";

const pieceBytes = 64 << 10;

interface Scene {
  /** What was read of the source of each answer, and how many of them were given up. */
  readonly sources: { bytes: number; ended: number };
  /** Asks for an answer without end, and takes none of it. */
  ask(): Promise<ClientHttp2Stream>;
  /** The other end is there all the while. */
  pass(ms: number): Promise<void>;
}

async function scene(limits: Partial<GuestLimits>, run: (scene: Scene) => Promise<void>): Promise<void> {
  const timers = new ManualTimers();
  const network = openGrpcNetwork({ timers, guestLimits: limits });
  const sources = { bytes: 0, ended: 0 };
  const http: HttpHandler = async () => {
    const body = new ReadableStream<Uint8Array>(
      {
        pull: (controller) => {
          sources.bytes += pieceBytes;
          controller.enqueue(new Uint8Array(pieceBytes));
        },
        cancel: () => void sources.ended++,
      },
      { highWaterMark: 0 },
    );
    return new Response(body);
  };
  const server = await network.serve("127.0.0.1:0", [], http);
  const session = connect(`http://${server.address}`);
  session.on("error", () => {});
  try {
    await run({
      sources,
      ask: async () => {
        const stream = session.request({ ":path": "/" });
        stream.on("error", () => {});
        stream.pause();
        await Promise.race([once(stream, "response"), once(stream, "close")]);
        return stream;
      },
      pass: async (ms) => {
        for (let passedMs = 0; passedMs < ms; passedMs += 5_000) {
          timers.advance(5_000);
          await settled();
        }
      },
    });
  } finally {
    session.destroy();
    await server.close();
    await network.close();
  }
}

describe("an answer of plain HTTP", () => {
  it("ends when nobody takes any of it for long", () =>
    scene({}, async ({ ask, pass, sources }) => {
      const stream = await ask();
      await pass(guestLimitsDefault.answerMs - 10_000);
      assert.equal(stream.closed, false);
      await pass(20_000);
      assert.equal(stream.closed, true);
      assert.equal(sources.ended, 1, "nothing more is read of its source");
    }));

  it("goes on as long as a little of it is taken now and then", () =>
    scene({}, async ({ ask, pass }) => {
      const stream = await ask();
      let taken = 0;
      stream.on("data", (bytes: Buffer) => {
        taken += bytes.byteLength;
        stream.pause();
      });
      for (let turn = 1; turn <= 20; turn++) {
        while (taken < turn * 2 * pieceBytes) {
          stream.resume();
          await settled();
        }
        await pass(guestLimitsDefault.answerMs / 2);
      }
      assert.equal(stream.closed, false);
    }));

  it("lies in memory no more than may be there for whoever asks, and the next one has room when it is gone", () =>
    scene({ bytesMax: 4 * pieceBytes }, async ({ ask, sources }) => {
      const asked = await Promise.all(Array.from({ length: 32 }, ask));
      await until(() => asked.some(({ closed }) => closed));
      await settled();
      const open = asked.filter(({ closed }) => !closed);
      assert.ok(open.length > 0 && open.length <= 4, `${open.length} of them wait`);
      assert.ok(sources.bytes <= 3 * asked.length * pieceBytes, "whoever waits is read no further");
      for (const stream of open) stream.close(constants.NGHTTP2_CANCEL);
      await until(() => sources.ended === asked.length);
      const next = await ask();
      await settled();
      assert.equal(next.closed, false);
    }));
});

/** Until what is on its way between sockets of this machine has arrived. */
async function settled(): Promise<void> {
  for (let turn = 0; turn < 10; turn++) await new Promise((resolve) => setImmediate(resolve));
}

/** The test's own time-out ends a wait in vain. */
async function until(holds: () => boolean): Promise<void> {
  while (!holds()) await settled();
}
