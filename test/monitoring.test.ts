// Monitoring of a real network: processes that are scraped, probed and traced while they train.

import assert from "node:assert/strict";
import { mkdtemp, readFile, rm } from "node:fs/promises";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, describe, test } from "node:test";
import { LocalNetwork } from "../src/cli/machine/local-network.ts";
import { Client } from "../src/client/client.ts";
import { Health, HealthCheckResponse_ServingStatus } from "../src/protocol/gen/grpc/health/v1/health_pb.ts";
import { trainOnInlineData } from "./small-training.ts";

interface Span {
  readonly traceId: string;
  readonly name: string;
  readonly parentSpanId?: string;
}

/** Takes what PNodes send, as an OpenTelemetry collector would. */
async function startCollector() {
  const spans: (Span & { readonly instance: string })[] = [];
  const server = createServer(async (request, response) => {
    const parts: Buffer[] = [];
    for await (const part of request) parts.push(part as Buffer);
    const { resourceSpans } = JSON.parse(Buffer.concat(parts).toString());
    for (const { resource, scopeSpans } of resourceSpans) {
      const instance = resource.attributes.find(({ key }: { key: string }) => key === "service.instance.id");
      for (const { spans: some } of scopeSpans)
        spans.push(...some.map((span: Span) => ({ ...span, instance: instance.value.stringValue })));
    }
    response.setHeader("content-type", "application/json").end("{}");
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const address = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  return { spans, address, close: () => new Promise((resolve) => server.close(resolve)) };
}

describe("monitoring of a network that trains", () => {
  let directory: string;
  let network: LocalNetwork;
  let client: Client;
  let collector: Awaited<ReturnType<typeof startCollector>>;
  let stopped = false;

  before(async () => {
    directory = await mkdtemp(join(tmpdir(), "dcnr-monitoring-"));
    collector = await startCollector();
    process.env["OTEL_EXPORTER_OTLP_ENDPOINT"] = collector.address;
    const options = { directory, listen: "127.0.0.1:0", pnodes: 2, cpusPerPNode: 1, logLevel: "info" };
    network = await LocalNetwork.start(options);
    client = new Client(network.orchestrator.address, { fetch });
    const session = await trainOnInlineData(client, { steps: 12 });
    assert.equal(session.status, "done", session.reason);
  });

  after(async () => {
    delete process.env["OTEL_EXPORTER_OTLP_ENDPOINT"];
    await client.close();
    if (!stopped) await network.stop();
    await collector.close();
    await rm(directory, { recursive: true, force: true });
  });

  const get = async (address: string, path: string) => fetch(`http://${address}${path}`);

  test("an orchestrator tells of fleet, session, store and itself", async () => {
    const response = await get(network.orchestrator.address, "/metrics");
    assert.equal(response.headers.get("content-type"), "text/plain; version=0.0.4; charset=utf-8");
    const text = await response.text();
    assert.match(text, /^dcnr_pnodes_online 2$/m);
    assert.match(text, /^dcnr_session_step\{session="[^"]+",network="small"\} 12$/m);
    assert.match(text, /^dcnr_session_loss\{.*\} [0-9.]+$/m);
    assert.match(text, /^dcnr_store_operation_seconds_count\{operation="put"\} [1-9]/m);
    assert.match(text, /^dcnr_store_up 1$/m);
    assert.match(text, /^process_resident_memory_bytes [1-9]/m);
    assertWellFormed(text);
  });

  test("a PNode tells of its VNodes' work", async () => {
    const texts = await Promise.all(network.pnodes.map(async ({ address }) => (await get(address, "/metrics")).text()));
    for (const text of texts) {
      assertWellFormed(text);
      assert.match(text, /^dcnr_pnode_attached 1$/m);
    }
    assert.match(texts.join(""), /^dcnr_vnode_work_seconds_count\{kind="update"\} [1-9]/m);
  });

  test("the metrics of the Grafana dashboard and of the alert rules exist", async () => {
    const texts = await Promise.all(
      [network.orchestrator, ...network.pnodes].map(async ({ address }) => (await get(address, "/metrics")).text()),
    );
    const told = new Set(texts.join("\n").match(/(?<=# TYPE )\S+/g));
    const dashboard = await readFile("deploy/grafana-dashboard.json", "utf8");
    const alerts = await readFile("deploy/alerts.yaml", "utf8");
    const used = new Set((dashboard + alerts).match(/\b(dcnr|process|nodejs)_[a-z0-9_]+/g));
    const names = [...used].map((name) => (told.has(name) ? name : name.replace(/_(bucket|sum|count)$/, "")));
    assert.ok(names.length > 10);
    assert.deepEqual(
      names.filter((name) => !told.has(name)),
      [],
    );
  });

  test("probes answer on every process, over HTTP and gRPC", async () => {
    for (const { address } of [network.orchestrator, ...network.pnodes]) {
      assert.equal((await get(address, "/healthz")).status, 200);
      assert.equal((await get(address, "/readyz")).status, 200);
      const { status } = await client.network.call(address, Health.method.check, {});
      assert.equal(status, HealthCheckResponse_ServingStatus.SERVING);
    }
  });

  test("a PNode whose orchestrator is gone is alive and not ready", async () => {
    const pnode = network.pnodes[0];
    assert.ok(pnode);
    network.orchestrator.kill("SIGKILL");
    await network.orchestrator.ended;
    let ready = await get(pnode.address, "/readyz");
    for (const began = performance.now(); ready.status === 200 && performance.now() - began < 20_000; )
      ready = await get(pnode.address, "/readyz");
    assert.equal(ready.status, 503);
    assert.match(await ready.text(), /not attached to an orchestrator/);
    assert.equal((await get(pnode.address, "/healthz")).status, 200);
  });

  test("a step across PNodes is one trace at the collector", async () => {
    stopped = true;
    await network.stop();
    const byTrace = Map.groupBy(collector.spans, ({ traceId }) => traceId);
    assert.equal(byTrace.size, 12, "a trace for each step");
    const instances = new Set(collector.spans.map(({ instance }) => instance));
    assert.equal(instances.size, 2, "both PNodes worked");
    for (const spans of byTrace.values()) {
      assert.deepEqual(new Set(spans.map(({ instance }) => instance)), instances);
      for (const kind of ["forward", "backward", "update", "step"])
        assert.ok(
          spans.some(({ name }) => name.startsWith(`${kind} `)),
          `a step has a span of its ${kind}`,
        );
    }
  });
});

/** Every line is a comment or `name{labels} value`, and every series has a type. */
function assertWellFormed(text: string): void {
  assert.ok(text.endsWith("\n"));
  const typed = new Set(text.match(/(?<=# TYPE )\S+/g));
  for (const line of text.trimEnd().split("\n")) {
    if (line.startsWith("# ")) continue;
    const match = /^([a-z][a-z0-9_]*)(\{(?:[a-z]+="(?:[^"\\]|\\.)*",?)+\})? (\S+)$/.exec(line);
    assert.ok(match, `not a sample: ${line}`);
    assert.ok(typed.has(match[1] ?? "") || typed.has(match[1]?.replace(/_(bucket|sum|count)$/, "") ?? ""), line);
    assert.ok(match[3] === "NaN" || match[3]?.endsWith("Inf") || Number.isFinite(Number(match[3])), line);
  }
}
