import assert from "node:assert/strict";
import { mkdtempSync, rmSync } from "node:fs";
import { createServer } from "node:http";
import { type AddressInfo, isIP } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, describe, it } from "node:test";
import { hasCode } from "../../../core/errors.ts";
import { silentLog } from "../../../core/world.ts";
import { Gate } from "../../../protocol/gate/gate.ts";
import { GateControl } from "../../../protocol/gate/gate-control.ts";
import { GateDialing } from "../../../protocol/gate/gate-dialing.ts";
import { KeyBook } from "../../../protocol/identity/key-book.ts";
import { parseAddress } from "../../../protocol/routes/address.ts";
import { Reach, type Resolve } from "../../../protocol/routes/reach.ts";
import { guestLimitsDefault } from "../../../protocol/server/limits.ts";
import { newIdentity } from "../../../system/keys.ts";
import { backgroundTimers } from "../../../system/timers.ts";
import { realWorld } from "../../../system/world.ts";
import { gateRequests } from "./gate-requests.ts";

const scratch = mkdtempSync(join(tmpdir(), "dcnr-requests-"));
const ends: (() => unknown)[] = [];
after(() => {
  for (const end of ends.reverse()) end();
  rmSync(scratch, { recursive: true, force: true });
});

/** What the owner's collector was sent. */
const taken: { readonly body: string; readonly key: string | undefined }[] = [];
const collector = createServer(async (request, response) => {
  let body = "";
  for await (const piece of request) body += piece;
  taken.push({ body, key: request.headers["x-key"] as string | undefined });
  response.end("{}");
});
await new Promise<void>((resolve) => collector.listen(0, "127.0.0.1", () => resolve()));
ends.push(() => collector.close());

/** A gate with what the real one is asked for, as the process behind it asks. */
async function openGate(): Promise<GateControl> {
  const asked: Record<string, string> = { "o.example": "203.0.113.9", "router.home": "192.168.1.1" };
  const resolve: Resolve = (host, found) => {
    const address = asked[host];
    if (address === undefined) found(new Error(`${host} is nowhere`), []);
    else found(null, [{ address, family: 4 }]);
  };
  const named = ["127.0.0.1:1"];
  const reach = new Reach([...named, "203.0.113.5:7700"], [], resolve);
  const identity = newIdentity();
  const dialing = new GateDialing({ timers: backgroundTimers, identity, keys: new KeyBook(), reach, web: false });
  const place = { path: join(scratch, "gate.sock"), token: "told to one process" };
  const { port } = collector.address() as AddressInfo;
  const gate = new Gate({
    ...{ timers: backgroundTimers, log: silentLog, ...place, identity, dialing, listen: "127.0.0.1:0" },
    ...{ limits: guestLimitsDefault, onGone: () => {} },
    requests: gateRequests({
      ...{ named, patienceMs: 0, path: join(scratch, "networks.json") },
      ...{ network: dialing.client, world: realWorld({ logFormat: "none" }), reach },
      collector: { url: `http://127.0.0.1:${port}/v1/traces`, headers: { "x-key": "the owner's" } },
    }),
  });
  await gate.open();
  const control = await GateControl.open({ ...place, log: silentLog, say: () => {}, onGone: () => {} });
  ends.push(() => {
    control.close();
    gate.close();
  });
  return control;
}

describe("what a process behind a gate may ask of it", async () => {
  const control = await openGate();
  const located = (towards: string) => control.request("located", { bound: "0.0.0.0:7701", towards });
  const refused = (error: unknown) => hasCode(error, "permission_denied");

  it("is where others reach it, seen from whom it may call", async () => {
    for (const towards of ["203.0.113.5:7700", "o.example:7700"]) {
      const { host, port } = parseAddress(String(await located(towards)));
      assert.equal(port, 7701);
      assert.notEqual(isIP(host), 0);
    }
  });

  it("is not how the owner's networks are made, nor what names lead to there", async () => {
    for (const towards of ["192.168.1.1:80", "169.254.169.254", "[fe80::1]:80", "router.home:80"])
      await assert.rejects(located(towards), refused, towards);
    await assert.rejects(located("nowhere.example:80"), /is nowhere/);
  });

  it("is that traces get to the owner's collector, with what that wants to be shown", async () => {
    const attributes = [{ key: "service.name", value: { stringValue: "dcnr-pnode" } }];
    const span = { traceId: "0".repeat(32), spanId: "1".repeat(16), name: "forward a", kind: 1 };
    const times = { startTimeUnixNano: "1", endTimeUnixNano: "2" };
    const scopeSpans = [{ scope: { name: "dcnr" }, spans: [{ ...span, ...times, attributes: [] }] }];
    const body = JSON.stringify({ resourceSpans: [{ resource: { attributes }, scopeSpans }] });
    await control.request("traces", body);
    assert.deepEqual(taken, [{ body, key: "the owner's" }]);
  });

  it("is nothing else of that collector, which may do more for whoever shows its key", async () => {
    const before = taken.length;
    for (const body of ['{"query":"mutation { destroy }"}', "name=value", "", '{"resourceSpans":[]} and more'])
      await assert.rejects(control.request("traces", body), (error) => hasCode(error, "invalid_argument"), body);
    assert.equal(taken.length, before);
  });

  it("is whom its owner sent it to, and why nobody answers there", async () => {
    await assert.rejects(control.request("orchestrators"), /127\.0\.0\.1:1/);
  });
});
