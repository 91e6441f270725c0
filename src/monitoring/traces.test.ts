import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { silentLog, type World } from "../core/world.ts";
import { collectorFrom } from "./collector.ts";
import { Tracer, traceIdOf, type Work } from "./traces.ts";

/** Timers that fire when told so. */
function fakeWorld(log: World["log"] = silentLog) {
  const due: (() => void)[] = [];
  let drawn = 0;
  const world: World = {
    clock: { wallMs: () => 0, monotonicMs: () => 0 },
    timers: {
      after: (_delayMs, callback) => {
        due.push(callback);
        return () => void due.splice(due.indexOf(callback), 1);
      },
    },
    chance: { bytes: (count) => new Uint8Array(count).fill(++drawn), uniform: () => 0 },
    log,
  };
  return { world, due };
}

interface SentSpan {
  traceId: string;
  spanId: string;
  parentSpanId?: string;
  name: string;
  startTimeUnixNano: string;
  endTimeUnixNano: string;
  status?: { code: number; message: string };
}

function spansOf(bodies: readonly string[]): SentSpan[] {
  return bodies.flatMap((body) => JSON.parse(body).resourceSpans[0].scopeSpans[0].spans as SentSpan[]);
}

function tracerTo(post: (url: string, body: string) => Promise<void>, world = fakeWorld().world): Tracer {
  return new Tracer({ url: "http://collector/v1/traces", resource: { "service.name": "test" }, world, post });
}

const work = (kind: string, startWallMs: number, more: Partial<Work> = {}): Work => ({
  ...{ kind, session: "s", vnode: "a", step: 7, startWallMs, durationMs: 2 },
  ...more,
});

describe("traces of steps", () => {
  test("put all PNodes' work of one step into one trace, and the next step into another", () => {
    assert.equal(traceIdOf("s", 7), traceIdOf("s", 7));
    assert.notEqual(traceIdOf("s", 7), traceIdOf("s", 8));
    assert.match(traceIdOf("s", 7), /^[0-9a-f]{32}$/);
  });

  test("hang a VNode's work below its step, which lasts from the first forward to the update", async () => {
    const bodies: string[] = [];
    const tracer = tracerTo(async (_url, body) => void bodies.push(body));
    tracer.work(work("forward", 1_000, { microbatch: 0 }));
    tracer.work(work("backward", 1_010.5, { microbatch: 0 }));
    tracer.work(work("update", 1_020));
    await tracer.close();
    const spans = spansOf(bodies);
    const step = spans.find(({ name }) => name === "step a");
    assert.equal(step?.startTimeUnixNano, "1000000000");
    assert.equal(step?.endTimeUnixNano, "1022000000");
    assert.equal(step?.parentSpanId, undefined);
    const children = spans.filter((span) => span !== step);
    assert.deepEqual(
      children.map(({ name }) => name),
      ["forward a", "backward a", "update a"],
    );
    assert.ok(
      children.every(({ parentSpanId, traceId }) => parentSpanId === step?.spanId && traceId === step?.traceId),
    );
    assert.equal(children[1]?.startTimeUnixNano, "1010500000");
    assert.equal(new Set(spans.map(({ spanId }) => spanId)).size, 4);
    assert.equal(tracer.sent, 4);
  });

  test("say what failed", async () => {
    const bodies: string[] = [];
    const tracer = tracerTo(async (_url, body) => void bodies.push(body));
    tracer.work(work("forward", 1, { failure: "not a number" }));
    await tracer.close();
    assert.deepEqual(spansOf(bodies)[0]?.status, { code: 2, message: "not a number" });
  });

  test("go out in batches when the timer fires", async () => {
    const { world, due } = fakeWorld();
    const sizes: number[] = [];
    const tracer = tracerTo(async (_url, body) => void sizes.push(spansOf([body]).length), world);
    for (let index = 0; index < 600; index++) tracer.work(work("forward", index));
    assert.equal(due.length, 1);
    assert.deepEqual(sizes, []);
    due[0]?.();
    await tracer.flush();
    assert.deepEqual(sizes, [512, 88]);
  });

  test("are dropped and counted when the collector is away, with one line in the log", async () => {
    const lines: string[] = [];
    const { world } = fakeWorld((_level, message) => lines.push(message));
    const tracer = tracerTo(() => Promise.reject(new Error("connection refused")), world);
    for (let index = 0; index < 10_000; index++) tracer.work(work("forward", index));
    await tracer.flush();
    tracer.work(work("forward", 1));
    await tracer.close();
    assert.equal(tracer.sent, 0);
    assert.equal(tracer.dropped, 10_001);
    assert.deepEqual(lines, ["traces are not taken: connection refused"]);
  });

  test("are off unless an endpoint is configured", () => {
    assert.equal(collectorFrom({}), undefined);
    assert.equal(collectorFrom({ OTEL_EXPORTER_OTLP_ENDPOINT: "http://c:4318", OTEL_SDK_DISABLED: "true" }), undefined);
    assert.equal(collectorFrom({ OTEL_EXPORTER_OTLP_ENDPOINT: "http://c:4318/" })?.url, "http://c:4318/v1/traces");
    assert.equal(collectorFrom({ OTEL_EXPORTER_OTLP_TRACES_ENDPOINT: "http://c/x" })?.url, "http://c/x");
    assert.deepEqual(collectorFrom({ OTEL_EXPORTER_OTLP_HEADERS: "Api-Key=a%20b" }, "https://c")?.headers, {
      "api-key": "a b",
    });
    assert.throws(() => collectorFrom({}, "collector:4318"), /http or https/);
  });
});
