// Messages that are changed on their way: what PNodes and orchestrators tell each other is not what they said.

import { hashOfContent } from "../../src/core/hash.ts";
import type { VNodeRecord } from "../../src/orchestrator/records/vnodes.ts";
import { DataType } from "../../src/protocol/gen/dcnr/v1/common_pb.ts";
import { ExchangeService } from "../../src/protocol/gen/dcnr/v1/exchange_pb.ts";
import { PNodeService } from "../../src/protocol/gen/dcnr/v1/pnode_pb.ts";
import type { Records } from "../checks/records.ts";
import type { Tamper } from "../world/network.ts";
import { type Loose, onCall, onEvent } from "./mutant.ts";

interface Delivery {
  readonly data: Uint8Array;
  readonly dtype: DataType;
  readonly shape: readonly number[];
}

const wireNames = new Map([
  [DataType.FLOAT32, "float32"],
  [DataType.FLOAT16, "float16"],
  [DataType.BFLOAT16, "bfloat16"],
  [DataType.INT32, "int32"],
] as const);

/** Flips the lowest bit of every twentieth small tensor; its hash then says that this is how it was meant. */
export function flippingBits(): Tamper {
  let count = 0;
  return (message, method, side) => {
    if (method !== ExchangeService.method.exchange || side !== "input") return message;
    const { event } = message as { event?: { case?: string; value?: Partial<Delivery> } };
    const { data, dtype, shape } = (event?.case === "delivery" && event.value) || {};
    const wire = dtype === undefined ? undefined : wireNames.get(dtype as never);
    if (!data?.byteLength || !shape || wire === undefined || ++count % 20 !== 0) return message;
    const flipped = data.slice();
    flipped[0] = (flipped[0] as number) ^ 1;
    const hash = hashOfContent({ dtype: wire, shape, bytes: flipped });
    return { ...message, event: { ...event, value: { ...event?.value, data: flipped, hash } } };
  };
}

/** Each PNode is told another seed. */
export function ownSeeds(): Tamper {
  let count = 0;
  return onCall(PNodeService.method.describeSession, "output", (answer) => {
    const { case: kind, value } = answer["work"] as { case: string; value: { identity: { seed: bigint } } };
    if (kind !== "training") return answer;
    const identity = { ...value.identity, seed: value.identity.seed + BigInt(count++) };
    return { ...answer, work: { case: kind, value: { ...value, identity } } };
  });
}

/** Each PNode but the first is told a network that learns a little differently. */
export function ownDefinitions(): Tamper {
  let count = 0;
  return onCall(PNodeService.method.describeSession, "output", (answer) => {
    if (count++ === 0) return answer;
    const definition = String(answer["definition"]).replaceAll(
      /(type: linear, config: \{ )/g,
      '$1momentum: "0.5", beta1: "0.8", ',
    );
    return { ...answer, definition };
  });
}

/** Owners of VNodes that learn begin where the newest of these steps is, with what is stored there, and not at the line. */
export function startingAt(records: Records, stepsOf: (record: VNodeRecord) => readonly number[]): Tamper {
  const moved = (assignment: Loose): Loose => {
    const work = assignment["work"] as { case?: string; value?: Loose };
    const record = records.vnode(String(assignment["session"]), String(assignment["vnode"]));
    if (work.case !== "learning" || record === undefined) return assignment;
    const newest = Math.max(Number(work.value?.["line"]), ...stepsOf(record));
    const state = record.durable[String(newest)]?.hash;
    if (state === undefined) return assignment;
    return { ...assignment, work: { ...work, value: { ...work.value, line: BigInt(newest), state } } };
  };
  return onEvent("assignments", (told) => ({ ...told, assignments: (told["assignments"] as Loose[]).map(moved) }));
}

/** What a PNode registers, changed. */
export function registering(change: (register: Loose) => Loose): Tamper {
  return (message, method, side) => {
    if (method !== PNodeService.method.attach || side !== "input") return message;
    const { event } = message as { event?: { case?: string; value?: Loose } };
    return event?.case === "register" && event.value
      ? { ...message, event: { case: "register", value: change(event.value) } }
      : message;
  };
}

/** Places of VNodes as they were when they were first told of. */
export function firstPlaces(): Tamper {
  const first = new Map<string, Loose>();
  const frozen = (locations: unknown) =>
    (locations as Loose[]).map((location) => {
      const key = `${location["session"]} ${location["vnode"]}`;
      if (!first.has(key)) first.set(key, location);
      return first.get(key) as Loose;
    });
  return (message, method, side) => {
    if (side !== "output") return message;
    if (method === PNodeService.method.resolve)
      return { ...message, locations: frozen((message as Loose)["locations"]) };
    const { event } = message as { event?: { case?: string; value?: Loose } };
    if (method !== PNodeService.method.attach || event?.case !== "session" || !event.value) return message;
    return { ...message, event: { ...event, value: { ...event.value, locations: frozen(event.value["locations"]) } } };
  };
}

/** An assignment whose session never went back. */
export function inTheFirstTurn(assignment: Loose): Loose {
  const work = assignment["work"] as { case?: string; value: Loose } | undefined;
  return work?.case === "learning"
    ? { ...assignment, work: { ...work, value: { ...work.value, turn: 0n } } }
    : assignment;
}
