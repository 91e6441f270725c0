import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { hasCode } from "../core/errors.ts";
import { silentLog } from "../core/world.ts";
import { rewrittenTraces } from "./otlp.ts";
import { Tracer } from "./traces.ts";

async function made(): Promise<string> {
  const bodies: string[] = [];
  const tracer = new Tracer({
    url: "http://collector/v1/traces",
    resource: { "service.name": "dcnr-pnode", "host.name": "ahorn" },
    world: {
      clock: { wallMs: () => 0, monotonicMs: () => 0 },
      timers: { after: () => () => {} },
      chance: { bytes: (count) => new Uint8Array(count).fill(7), uniform: () => 0 },
      log: silentLog,
    },
    post: async (_, body) => void bodies.push(body),
  });
  const work = { session: "s", vnode: "a", step: 7, startWallMs: 1.5, durationMs: 2 };
  tracer.work({ kind: "forward", microbatch: 3, failure: "it broke", ...work });
  tracer.work({ kind: "update", ...work });
  await tracer.close();
  return bodies[0] ?? assert.fail("nothing was sent");
}

describe("traces that pass a gate", () => {
  test("are those that PNodes make, to the last field", async () => {
    const body = await made();
    assert.equal(rewrittenTraces(body), body);
  });

  test("are nothing else", async () => {
    const body = await made();
    const spoiled = [
      "",
      "GET / HTTP/1.1\r\n\r\n",
      "[]",
      "{}",
      '{"query":"mutation { destroy }"}',
      body.replace(/"traceId":"[^"]*"/, '"traceId":"x"'),
      body.replace(/"startTimeUnixNano":"[^"]*"/, '"startTimeUnixNano":{}'),
      body.replace('"key":"service.name"', '"key":"service name"'),
      body.replace(/"spans":\[.*\]/, '"spans":{}'),
      body.replace(/"name":"forward a"/, '"name":["forward a"]'),
      JSON.stringify({ resourceSpans: [...JSON.parse(body).resourceSpans, ...JSON.parse(body).resourceSpans] }),
    ];
    for (const one of spoiled)
      assert.throws(
        () => rewrittenTraces(one),
        (error) => hasCode(error, "invalid_argument"),
        one,
      );
  });

  test("carry no field that is not theirs, and no text without end", async () => {
    const given = JSON.parse(await made());
    given.query = "more";
    const [span] = given.resourceSpans[0].scopeSpans[0].spans;
    span.links = ["more"];
    span.name = "x".repeat(1e6);
    const kept = rewrittenTraces(JSON.stringify(given));
    assert.ok(!kept.includes("more"));
    assert.ok(kept.length < 5_000);
    const [resource] = JSON.parse(await made()).resourceSpans;
    const [one] = resource.scopeSpans[0].spans;
    resource.scopeSpans[0].spans = Array.from({ length: 5_000 }, () => one);
    assert.throws(() => rewrittenTraces(JSON.stringify({ resourceSpans: [resource] })), /at most 4096/);
  });
});
