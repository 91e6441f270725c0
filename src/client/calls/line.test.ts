import assert from "node:assert/strict";
import { test } from "node:test";
import { NetworkService } from "../../protocol/gen/dcnr/v1/network_pb.ts";
import type { CallOptions, Network } from "../../protocol/network.ts";
import { Line } from "./line.ts";

test("a person's call outlasts what an orchestrator gives itself to load what it needs, unless the call says otherwise", async () => {
  const asked: (number | undefined)[] = [];
  const network = {
    call: async (_address: string, _method: unknown, _request: unknown, options?: CallOptions) => {
      asked.push(options?.timeoutMs);
      return {};
    },
  } as unknown as Network;
  const line = new Line("127.0.0.1:1", network);
  await line.call(NetworkService.method.createNetwork, { definition: "", id: "a" });
  await line.call(NetworkService.method.createNetwork, { definition: "", id: "a" }, { timeoutMs: 5 });
  // system/threads/aside.ts: a minute to load a module on a busy machine, then the deadline of the work itself.
  assert.ok((asked[0] ?? 0) > 60_000, `${asked[0]}`);
  assert.equal(asked[1], 5);
});
