// The DynamoDB store against DynamoDB Local, which the test starts and stops.

import assert from "node:assert/strict";
import { once } from "node:events";
import { createServer, type IncomingMessage, request, type Server } from "node:http";
import { after, before, describe, it } from "node:test";
import { CreateTableCommand, DynamoDBClient } from "@aws-sdk/client-dynamodb";
import { hasCode } from "../../src/core/errors.ts";
import { storeConformance, conformanceWorld as world } from "../../src/store/records/conformance.ts";
import { openDynamoStore } from "../../src/store/records/dynamodb.ts";
import { type DynamoServer, dynamoIsThere, startDynamo } from "./servers/dynamodb.ts";

if (dynamoIsThere()) {
  let server: DynamoServer;
  before(async () => {
    server = await startDynamo();
  });
  after(() => server?.stop());

  const open = (table = "shared") => openDynamoStore({ table, endpoint: server.endpoint, world });
  storeConformance("dynamodb", { open, address: () => `dynamodb:shared@${server.endpoint}` });

  describe("a DynamoDB store", () => {
    it("creates its table on first use, also when several processes come first together", async () => {
      const stores = await Promise.all([1, 2, 3, 4].map(() => open("together")));
      await stores[0]!.put("key", "value", 0);
      assert.equal((await stores[3]!.get("key"))?.value, "value");
      for (const store of stores) await store.close();
    });

    it("refuses a table with another schema and says what it found", async () => {
      const client = new DynamoDBClient({ endpoint: server.endpoint, region: "us-east-1" });
      await client.send(
        new CreateTableCommand({
          TableName: "holidays",
          KeySchema: [{ AttributeName: "day", KeyType: "HASH" }],
          AttributeDefinitions: [{ AttributeName: "day", AttributeType: "N" }],
          BillingMode: "PAY_PER_REQUEST",
        }),
      );
      client.destroy();
      await assert.rejects(open("holidays"), (thrown: Error) => {
        assert.ok(hasCode(thrown, "failed_precondition"));
        assert.match(
          thrown.message,
          /holidays .*its key is day \(N\) as HASH, not partition \(S\).*name another table/,
        );
        return true;
      });
    });

    it("names an endpoint that does not answer, and a table name that cannot be", async () => {
      await assert.rejects(openDynamoStore({ table: "t", endpoint: "http://127.0.0.1:1", world }), (thrown: Error) => {
        assert.ok(hasCode(thrown, "unavailable"));
        assert.match(thrown.message, /table t at http:\/\/127\.0\.0\.1:1 did not answer/);
        return true;
      });
      await assert.rejects(open("no spaces"), /no spaces .*check its name/);
    });

    it("counts a reply that does not come in time as lost", async () => {
      let silent = false;
      const proxy = createServer((request, response) => {
        if (!silent) request.pipe(httpRequest(server.endpoint, request, (answer) => answer.pipe(response)));
      });
      const endpoint = await listen(proxy);
      const store = await openDynamoStore({ table: "shared", endpoint, world, requestTimeoutMs: 1_000 });
      silent = true;
      await assert.rejects(store.put("silence", "value", 0), (thrown) => hasCode(thrown, "unavailable"));
      await store.close();
      proxy.close();
      proxy.closeAllConnections();
    });

    it("repeats what was throttled, and reports a failure of the server without repeating it", async () => {
      const replies: string[] = [];
      const calls: string[] = [];
      const proxy = createServer(async (request, response) => {
        const body = Buffer.concat(await Array.fromAsync(request));
        const call = String(request.headers["x-amz-target"]).split(".")[1]!;
        calls.push(call);
        const error = call === "PutItem" ? replies.shift() : undefined;
        if (error !== undefined) {
          const type = `com.amazonaws.dynamodb.v20120810#${error}`;
          response.writeHead(error === "InternalServerError" ? 500 : 400, {
            "content-type": "application/x-amz-json-1.0",
          });
          return response.end(JSON.stringify({ __type: type, message: "injected" }));
        }
        httpRequest(server.endpoint, request, (answer) => answer.pipe(response)).end(body);
      });
      const store = await openDynamoStore({ table: "shared", endpoint: await listen(proxy), world });
      replies.push("ProvisionedThroughputExceededException", "ThrottlingException");
      assert.equal(await store.put("throttled", "value", 0), 1);
      assert.equal(calls.filter((call) => call === "PutItem").length, 3);
      replies.push("InternalServerError");
      await assert.rejects(store.put("failed", "value", 0), (thrown) => hasCode(thrown, "unavailable"));
      assert.equal(replies.length, 0);
      await store.close();
      proxy.close();
      proxy.closeAllConnections();
    });
  });
}

/** The same request, sent on. */
function httpRequest(
  endpoint: string,
  { method, headers }: IncomingMessage,
  onAnswer: (answer: IncomingMessage) => void,
) {
  return request(endpoint, { method, headers }, onAnswer);
}

async function listen(server: Server): Promise<string> {
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  return `http://127.0.0.1:${(server.address() as { port: number }).port}`;
}
