// Creates the DynamoDB table on first use, and refuses one that somebody else made for something else.

import type { DynamoDBClient, TableDescription } from "@aws-sdk/client-dynamodb";
import { fail } from "../../core/errors.ts";
import { loadOptional } from "../../core/optional.ts";
import { sleep, type World } from "../../core/world.ts";

const aws = await loadOptional<typeof import("@aws-sdk/client-dynamodb")>(
  "@aws-sdk/client-dynamodb",
  "dynamodb",
  "a DynamoDB store",
);

const creationTimeoutMs = 60_000;
const creationPollMs = 200;
const expectedKey = "partition (S) as HASH, key (S) as RANGE";

export async function prepareTable(
  client: DynamoDBClient,
  table: string,
  where: string,
  world: Pick<World, "clock" | "timers">,
): Promise<void> {
  const giveUpMs = world.clock.monotonicMs() + creationTimeoutMs;
  for (;;) {
    const found = await describe(client, table);
    if (found === undefined) await create(client, table);
    else {
      const key = keyOf(found);
      if (key !== expectedKey)
        fail(
          "failed_precondition",
          `the ${where} has another schema: its key is ${key}, not ${expectedKey}; name another table`,
        );
      if (found.TableStatus === "ACTIVE" || found.TableStatus === "UPDATING") return;
    }
    if (world.clock.monotonicMs() > giveUpMs) fail("unavailable", `the ${where} was not ready in time: try again`);
    await sleep(world.timers, creationPollMs);
  }
}

async function describe(client: DynamoDBClient, table: string): Promise<TableDescription | undefined> {
  try {
    return (await client.send(new aws.DescribeTableCommand({ TableName: table }))).Table;
  } catch (thrown) {
    if (thrown instanceof aws.ResourceNotFoundException) return undefined;
    throw thrown;
  }
}

async function create(client: DynamoDBClient, table: string): Promise<void> {
  const command = new aws.CreateTableCommand({
    TableName: table,
    KeySchema: [
      { AttributeName: "partition", KeyType: "HASH" },
      { AttributeName: "key", KeyType: "RANGE" },
    ],
    AttributeDefinitions: [
      { AttributeName: "partition", AttributeType: "S" },
      { AttributeName: "key", AttributeType: "S" },
    ],
    BillingMode: "PAY_PER_REQUEST",
  });
  try {
    await client.send(command);
  } catch (thrown) {
    // Another process was faster.
    if (!(thrown instanceof aws.ResourceInUseException)) throw thrown;
  }
}

function keyOf({ KeySchema = [], AttributeDefinitions = [] }: TableDescription): string {
  const typeOf = (name: string | undefined) =>
    AttributeDefinitions.find((one) => one.AttributeName === name)?.AttributeType;
  return KeySchema.map(
    ({ AttributeName, KeyType }) => `${AttributeName} (${typeOf(AttributeName)}) as ${KeyType}`,
  ).join(", ");
}
