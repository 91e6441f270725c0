// A lane that had no part in a round and goes on with its own moments: it is to go on from all that the first lane which had comes to, not
// from its weights alone. What is recorded for it is a state made of both, which everybody finds well formed.

import type { Sha256 } from "../../src/core/ids.ts";
import { allocate, type Tensor } from "../../src/core/tensor.ts";
import { laneOf } from "../../src/network/lanes.ts";
import { isCommon, lanesAt } from "../../src/network/rounds.ts";
import type { VNodeRecord } from "../../src/orchestrator/records/vnodes.ts";
import { roundsOf } from "../../src/orchestrator/sessions/line.ts";
import { manifestOf } from "../../src/orchestrator/sessions/stored-states.ts";
import { memoryState } from "../../src/states/in-memory.ts";
import { StateReader } from "../../src/states/reader.ts";
import type { BlobSpace, BlobStore } from "../../src/store/blobs/blob-store.ts";
import type { StateStore } from "../../src/store/records/state-store.ts";
import type { Records } from "../checks/records.ts";

/** Other tensors of a state are common to all lanes at a round's end. */
const ownTensors = "optimizer.";

/** What was made for a lane stays: whoever writes its record again comes to the same. By world, record and step. */
const made = new WeakMap<Records, Map<string, Sha256>>();

export function keepsItsMoments(view: StateStore, records: Records, { states }: BlobStore): StateStore {
  const known = made.get(records) ?? new Map<string, Sha256>();
  made.set(records, known);
  const put: StateStore["put"] = async (name, value, expected) => {
    if (!name.startsWith("vnode/")) return view.put(name, value, expected);
    const record = JSON.parse(value) as VNodeRecord;
    const gift = giftOf(records, record);
    if (gift !== undefined && !known.has(`${name} ${gift.step}`))
      known.set(`${name} ${gift.step}`, await mixed(states, gift.given, gift.own));
    const durable = Object.entries(record.durable).map(([step, state]) => {
      const hash = known.get(`${name} ${step}`) ?? state.hash;
      return [step, { ...state, hash }] as const;
    });
    return view.put(name, JSON.stringify({ ...record, durable: Object.fromEntries(durable) }), expected);
  };
  return new Proxy(view, {
    get: (target, property) => (property === "put" ? put : Reflect.get(target, property, target).bind(target)),
  });
}

/** The state that a lane is being given at the end of a round in which it had no part, and the newest of its own before. */
function giftOf(records: Records, { session: id, vnode, durable }: VNodeRecord) {
  const session = records.session(id);
  if (session?.policy.elastic !== "on") return undefined;
  const before = records.vnode(id, vnode)?.durable ?? {};
  const isGiven = (step: number) =>
    isCommon(session.identity, step) &&
    before[step] === undefined &&
    lanesAt(session.identity, roundsOf(session), step)?.includes(laneOf(vnode)) === false;
  const step = Object.keys(durable).find((one) => isGiven(Number(one)));
  const given = step && durable[step]?.hash;
  const own = before[Object.keys(before).at(-1) ?? ""]?.hash;
  return given && own ? { step, given, own } : undefined;
}

/** All of one state but moments, which are the other's. */
async function mixed(states: BlobSpace, given: Sha256, own: Sha256): Promise<Sha256> {
  const { metadata, tensors, partBytes, apartBytes } = await manifestOf(states, given);
  const image = new Map(tensors.map(({ name, dtype, shape }): [string, Tensor] => [name, allocate(dtype, shape)]));
  for (const [state, isOwn] of [
    [given, false],
    [own, true],
  ] as const)
    await (await readerOf(states, state)).readInto(
      Array.from(image, ([name, { shape, data }]) => ({ name, shape, into: data as Float32Array })).filter(
        ({ name }) => name.startsWith(ownTensors) === isOwn,
      ),
    );
  const made = await memoryState({ metadata, tensors: image, ...(apartBytes && { apartBytes }) }, partBytes);
  for (const [hash, content] of made.blobs) await states.put(hash, content, content.byteLength);
  return made.state;
}

async function readerOf(states: BlobSpace, state: Sha256): Promise<StateReader> {
  return new StateReader({
    manifest: await manifestOf(states, state),
    fetchPart: async (hash, into) => into.set(await states.get(hash)),
    clock: { monotonicMs: () => 0 },
    what: `the state ${state}`,
  });
}
