import { strict as assert } from "node:assert";
import { test } from "node:test";
import { create } from "@bufbuild/protobuf";
import type { PNodeId } from "../../../core/ids.ts";
import { HeartbeatSchema } from "../../../protocol/gen/dcnr/v1/pnode_pb.ts";
import type { Context } from "../../context.ts";
import { key } from "../../records/store-keys.ts";
import type { VNodeRecord } from "../../records/vnodes.ts";
import type { Rates } from "../../sessions/rates.ts";
import type { Metrics } from "../../views/metrics.ts";
import type { Capacity } from "../capacity/capacity.ts";
import type { Rooms } from "../capacity/rooms.ts";
import type { Attachment } from "./attachment.ts";
import { Heartbeats } from "./heartbeats.ts";

const rounding = (engine: string, digit: string) => `${engine}-${"a".repeat(12)} ${digit.repeat(64)}`;

/** The record of one VNode that p1 and p2 host, and what heartbeats make of it. */
function scene() {
  let record = { members: [{ pnode: "p1" }, { pnode: "p2" }] } as unknown as VNodeRecord;
  const mirror = {
    get: (name: string) => (name === key.vnode("s", "v") ? record : undefined),
    update: async (_: string, change: (current: VNodeRecord) => VNodeRecord | undefined) => {
      record = change(record) ?? record;
    },
  };
  const tasks = { run: (_: string, work: () => Promise<void>) => void work() };
  const heartbeats = new Heartbeats(
    { mirror, tasks } as unknown as Context,
    {} as Metrics,
    { vnodesOn: () => new Set(), hosts: () => true } as unknown as Capacity,
    {} as Rates,
    {} as Rooms,
  );
  const hear = (pnode: string, said: string) =>
    heartbeats.hear(
      { pnode: pnode as PNodeId } as Attachment,
      create(HeartbeatSchema, { vnodes: [{ session: "s", vnode: "v", rounding: said }] }),
    );
  return { hear, known: () => record.rounding };
}

test("what the first owner of a class came to stays; another class begins anew", () => {
  const { hear, known } = scene();
  hear("p1", rounding("webgpu", "1"));
  hear("p2", rounding("webgpu", "2"));
  assert.equal(known(), rounding("webgpu", "1"));
  hear("p2", rounding("cuda", "3"));
  assert.equal(known(), rounding("cuda", "3"));
});

test("nobody but owners is believed, and nothing but a class and a hash is kept", () => {
  const { hear, known } = scene();
  hear("p3", rounding("webgpu", "1"));
  hear("p1", "");
  hear("p1", "anything else");
  hear("p1", `${rounding("webgpu", "1")} and more`);
  assert.equal(known(), undefined);
});
