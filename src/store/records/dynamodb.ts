// State in one DynamoDB table, by conditional writes of single items. All keys share one partition, so that lists are
// ordered queries; DynamoDB splits it by key ranges under load. A second partition carries watch hints.

import type { DynamoDBClient, PutItemCommandInput } from "@aws-sdk/client-dynamodb";
import { fail } from "../../core/errors.ts";
import { loadOptional } from "../../core/optional.ts";
import { type Cancel, every, sleep, type World } from "../../core/world.ts";
import { awsError, isThrottled } from "../aws-errors.ts";
import { prepareTable } from "./dynamodb-table.ts";
import { HintSender, Hints } from "./hints.ts";
import { checkKey, checkValue, checkVersion, compareKeys, listRange, PageBuilder } from "./items.ts";
import type { ListPage, StateStore, StoredItem } from "./state-store.ts";

const aws = await loadOptional<typeof import("@aws-sdk/client-dynamodb")>(
  "@aws-sdk/client-dynamodb",
  "dynamodb",
  "a DynamoDB store",
);

type StoreWorld = Pick<World, "clock" | "timers" | "chance">;

export interface DynamoStoreOptions {
  readonly table: string;
  /** For DynamoDB Local and its like; AWS's own by default. Credentials and region come from the usual AWS settings. */
  readonly endpoint?: string | undefined;
  readonly world: StoreWorld;
  /** A reply that takes longer counts as lost. */
  readonly requestTimeoutMs?: number;
}

const itemsPartition = "items";
const hintsPartition = "hints";
const connectTimeoutMs = 3_000;
const throttledTimeoutMs = 20_000;
const throttledDelayMsMax = 1_000;
/** One query of a few small items; at this pace it costs two read units a second. */
const watchIntervalMs = 250;
const hintDelayMs = 50;
const hintsKept = 64;
/** Much longer than watchers need; what is older belongs to a process that ended. */
const hintLifetimeMs = 24 * 60 * 60 * 1000;

export async function openDynamoStore(options: DynamoStoreOptions): Promise<StateStore> {
  const { table, endpoint, world, requestTimeoutMs = 10_000 } = options;
  const client = new aws.DynamoDBClient({
    ...(endpoint === undefined ? {} : { endpoint, region: process.env["AWS_REGION"] ?? "us-east-1" }),
    // The SDK would repeat a conditional write whose reply was lost, and take its own write for another's.
    maxAttempts: 1,
    requestHandler: {
      connectionTimeout: connectTimeoutMs,
      requestTimeout: requestTimeoutMs,
      throwOnRequestTimeout: true,
    },
  });
  const where = `DynamoDB table ${table}${endpoint === undefined ? "" : ` at ${endpoint}`}`;
  try {
    await prepareTable(client, table, where, world);
  } catch (thrown) {
    client.destroy();
    throw awsError(thrown, where);
  }
  return new DynamoStore(client, table, where, world);
}

class DynamoStore implements StateStore {
  readonly #client: DynamoDBClient;
  readonly #table: string;
  readonly #where: string;
  readonly #world: StoreWorld;
  readonly #hints = new Hints();
  readonly #sender: HintSender;
  readonly #recent: RecentHints;
  #stopPolling: Cancel | undefined;
  #closed = false;

  constructor(client: DynamoDBClient, table: string, where: string, world: StoreWorld) {
    this.#client = client;
    this.#table = table;
    this.#where = where;
    this.#world = world;
    this.#recent = { writer: Buffer.from(world.chance.bytes(9)).toString("base64url"), sequence: 0, keys: [] };
    this.#sender = new HintSender(world.timers, hintDelayMs, (keys) => this.#publish(keys));
  }

  async get(key: string): Promise<StoredItem | undefined> {
    checkKey(key);
    const { Item } = await this.#call(() =>
      this.#client.send(new aws.GetItemCommand({ TableName: this.#table, Key: itemKey(key), ConsistentRead: true })),
    );
    return Item && toItem(Item);
  }

  async put(key: string, value: string, expected: number): Promise<number | undefined> {
    checkKey(key);
    checkValue(key, value);
    checkVersion(key, expected);
    const Item = { ...itemKey(key), value: { S: value }, version: { N: String(expected + 1) } };
    const command = new aws.PutItemCommand({ TableName: this.#table, Item, ...ifVersion(expected) });
    if (!(await this.#written(() => this.#client.send(command)))) return undefined;
    this.#changed(key);
    return expected + 1;
  }

  async delete(key: string, expected: number): Promise<boolean> {
    checkKey(key);
    checkVersion(key, expected);
    if (expected === 0) return false;
    const command = new aws.DeleteItemCommand({ TableName: this.#table, Key: itemKey(key), ...ifVersion(expected) });
    if (!(await this.#written(() => this.#client.send(command)))) return false;
    this.#changed(key);
    return true;
  }

  async list(prefix: string, options?: { after?: string; limit?: number }): Promise<ListPage> {
    const { after, limit } = listRange(prefix, options);
    const page = new PageBuilder(limit);
    const resumes = after !== undefined && compareKeys(after, prefix) >= 0;
    // DynamoDB refuses to start outside the range that it is asked for.
    if (resumes && !after.startsWith(prefix)) return page.page();
    let start = resumes ? itemKey(after) : undefined;
    do {
      const found = await this.#query(itemsPartition, prefix, { limit: limit + 1, start, consistent: true });
      for (const item of found.Items ?? []) if (!page.add(toItem(item))) return page.page();
      start = found.LastEvaluatedKey as typeof start;
    } while (start !== undefined);
    return page.page();
  }

  watch(prefix: string, onHint: (keys: readonly string[]) => void): Cancel {
    const cancel = this.#hints.watch(prefix, onHint);
    this.#stopPolling ??= this.#pollOtherWriters();
    return () => {
      cancel();
      if (this.#hints.watched) return;
      this.#stopPolling?.();
      this.#stopPolling = undefined;
    };
  }

  async close(): Promise<void> {
    if (this.#closed) return;
    this.#closed = true;
    this.#stopPolling?.();
    this.#hints.clear();
    await this.#sender.flush();
    this.#client.destroy();
  }

  #query(
    partition: string,
    prefix: string,
    options: { limit?: number; start?: ItemKey | undefined; consistent: boolean },
  ) {
    const under = prefix === "" ? "" : " AND begins_with(#key, :prefix)";
    const command = new aws.QueryCommand({
      TableName: this.#table,
      KeyConditionExpression: `#partition = :partition${under}`,
      ExpressionAttributeNames: { "#partition": "partition", ...(prefix === "" ? {} : { "#key": "key" }) },
      ExpressionAttributeValues: {
        ":partition": { S: partition },
        ...(prefix === "" ? {} : { ":prefix": { S: prefix } }),
      },
      ConsistentRead: options.consistent,
      Limit: options.limit,
      ExclusiveStartKey: options.start,
    });
    return this.#call(() => this.#client.send(command));
  }

  async #written(send: () => Promise<unknown>): Promise<boolean> {
    return this.#call(async () => {
      try {
        await send();
        return true;
      } catch (thrown) {
        if (thrown instanceof aws.ConditionalCheckFailedException) return false;
        throw thrown;
      }
    });
  }

  /** A throttled call was not executed, so it alone may be repeated without a look at the item. */
  async #call<Result>(send: () => Promise<Result>): Promise<Result> {
    if (this.#closed) fail("failed_precondition", `the ${this.#where} is closed: open it again`);
    const { clock, timers, chance } = this.#world;
    const giveUpMs = clock.monotonicMs() + throttledTimeoutMs;
    for (let attempt = 0; ; attempt++) {
      try {
        return await send();
      } catch (thrown) {
        if (!isThrottled(thrown) || clock.monotonicMs() > giveUpMs) throw awsError(thrown, this.#where);
        await sleep(timers, chance.uniform() * Math.min(throttledDelayMsMax, 25 * 2 ** attempt));
      }
    }
  }

  #changed(key: string): void {
    this.#hints.changed([key]);
    this.#sender.add(key);
  }

  /** Each writer overwrites one item of its own with its latest keys: no conditions, no contention. */
  async #publish(keys: readonly string[]): Promise<void> {
    const recent = this.#recent;
    if (recent.sequence === 0) await this.#sweepHints().catch(() => {});
    recent.keys = [...recent.keys, ...keys.map((key): [number, string] => [++recent.sequence, key])].slice(-hintsKept);
    const Item = {
      ...hintKey(recent.writer),
      value: { S: JSON.stringify(recent.keys) },
      wallMs: { N: String(Math.floor(this.#world.clock.wallMs())) },
    };
    await this.#client.send(new aws.PutItemCommand({ TableName: this.#table, Item }));
  }

  /** Removes the items of writers that are gone. */
  async #sweepHints(): Promise<void> {
    const { Items = [] } = await this.#query(hintsPartition, "", { consistent: false });
    for (const { key, wallMs } of Items) {
      if (Number(wallMs?.N) > this.#world.clock.wallMs() - hintLifetimeMs) continue;
      await this.#client.send(new aws.DeleteItemCommand({ TableName: this.#table, Key: hintKey(key?.S ?? "") }));
    }
  }

  #pollOtherWriters(): Cancel {
    const seen = new Map<string, number>();
    let first = true;
    const look = async () => {
      const { Items = [] } = await this.#query(hintsPartition, "", { consistent: false });
      for (const item of Items) {
        const writer = item["key"]?.S ?? "";
        const keys = JSON.parse(item["value"]?.S ?? "[]") as [number, string][];
        const news = keys.filter(([sequence]) => sequence > (seen.get(writer) ?? 0)).map(([, key]) => key);
        seen.set(writer, keys.at(-1)?.[0] ?? 0);
        if (!first && writer !== this.#recent.writer) this.#hints.changed(news);
      }
      first = false;
    };
    // Hints may be missed; what is wrong with the table is reported by reads and writes.
    return every(this.#world.timers, watchIntervalMs, () => look().catch(() => {}));
  }
}

interface RecentHints {
  readonly writer: string;
  sequence: number;
  keys: [number, string][];
}

type ItemKey = ReturnType<typeof itemKey>;

function itemKey(key: string) {
  return { partition: { S: itemsPartition }, key: { S: key } };
}

function hintKey(writer: string) {
  return { partition: { S: hintsPartition }, key: { S: writer } };
}

function toItem(item: Record<string, { S?: string; N?: string }>): StoredItem {
  return { key: item["key"]?.S ?? "", value: item["value"]?.S ?? "", version: Number(item["version"]?.N) };
}

function ifVersion(expected: number): Partial<PutItemCommandInput> {
  if (expected === 0)
    return { ConditionExpression: "attribute_not_exists(#key)", ExpressionAttributeNames: { "#key": "key" } };
  return {
    ConditionExpression: "#version = :expected",
    ExpressionAttributeNames: { "#version": "version" },
    ExpressionAttributeValues: { ":expected": { N: String(expected) } },
  };
}
