// Compares a state with the one before it, piece by piece out of the blob store, by what its optimizer can do at most (movement.ts). Only for
// sessions that ask for it (`--cap on`): it is the one thing for which an orchestrator reads weights.

import type { Sha256 } from "../../../core/ids.ts";
import { elementBytes, elementCount } from "../../../core/tensor.ts";
import { sleep, type World } from "../../../core/world.ts";
import { partLength, partStart, type StateManifest } from "../../../states/manifest.ts";
import type { BlobSpace } from "../../../store/blobs/blob-store.ts";
import { manifestOf } from "../../sessions/stored-states.ts";
import type { MoveBound } from "./movement.ts";

/** Of one tensor at a time: a few milliseconds of comparing, so that heartbeats are heard in between. */
const sliceFloats = 1 << 18;
/** Squares of gradients below it vanish in float32, gradients do not. */
const momentLeast = 1e-18;

export interface Weighed {
  readonly states: Pick<BlobSpace, "get">;
  readonly world: Pick<World, "timers">;
  readonly before: Sha256;
  readonly after: Sha256;
  readonly bound: MoveBound;
}

/** What no optimizer does, in words; undefined if it may have. */
export async function beyondBound({ states, world, before, after, bound }: Weighed): Promise<string | undefined> {
  const [old, now] = await Promise.all([
    manifestOf(states as BlobSpace, before),
    manifestOf(states as BlobSpace, after),
  ]);
  const [from, to] = [placesOf(old), placesOf(now)];
  for (const [name, { form }] of from) if (to.get(name)?.form !== form) return `${name} is missing or has another form`;
  for (const [name, { floats }] of from) {
    if (name.startsWith("optimizer.") || floats === 0) continue;
    const [first, second] = [`optimizer.first.${name}`, `optimizer.second.${name}`];
    // What has no moments, where others do, is frozen.
    const isFrozen = bound.moment !== undefined && !from.has(first);
    for (let at = 0; at < floats; at += sliceFloats) {
      const count = Math.min(sliceFloats, floats - at);
      const read = async (manifest: StateManifest, places: typeof from, tensor: string) => {
        const place = places.get(tensor);
        return place && floatsOf(states, manifest, place.start + 4 * at, count);
      };
      const [a, b] = await Promise.all([read(old, from, name), read(now, to, name)]);
      const [m, v] = await Promise.all([read(now, to, first), read(now, to, second)]);
      const problem = problemIn(bound, isFrozen, a as Float32Array, b as Float32Array, m, v);
      if (problem !== undefined) return `${name}: ${problem}`;
      await sleep(world.timers, 0);
    }
  }
  return undefined;
}

function problemIn(
  { fixed, share, moment, velocity }: MoveBound,
  isFrozen: boolean,
  before: Float32Array,
  after: Float32Array,
  first: Float32Array | undefined,
  second: Float32Array | undefined,
): string | undefined {
  const [a, b] = isFrozen ? [0, 0] : [fixed, share];
  for (let i = 0; i < before.length; i++) {
    const was = before[i] as number;
    const moved = Math.abs((after[i] as number) - was);
    // Also what is no number.
    if (!(moved <= a + b * Math.abs(was)))
      return `a weight moved by ${moved.toPrecision(3)}, at most ${(a + b * Math.abs(was)).toPrecision(3)} is possible`;
  }
  if (first === undefined) return undefined;
  for (let i = 0; i < first.length; i++) {
    const most = second && moment !== undefined ? moment * Math.sqrt(second[i] as number) + momentLeast : velocity;
    if (most !== undefined && !(Math.abs(first[i] as number) <= most)) return "its moments follow from no gradients";
  }
  return undefined;
}

interface Place {
  readonly start: number;
  readonly form: string;
  /** 0 where it holds something else. */
  readonly floats: number;
}

function placesOf({ tensors }: StateManifest): Map<string, Place> {
  const places = new Map<string, Place>();
  let start = 0;
  for (const { name, dtype, shape } of tensors) {
    const count = elementCount(shape);
    places.set(name, { start, form: `${dtype}[${shape}]`, floats: dtype === "float32" ? count : 0 });
    start += elementBytes(dtype) * count;
  }
  return places;
}

/** `count` floats from byte `start` of a state, whichever parts hold them. */
async function floatsOf(
  states: Pick<BlobSpace, "get">,
  manifest: StateManifest,
  start: number,
  count: number,
): Promise<Float32Array> {
  const floats = new Float32Array(count);
  const into = new Uint8Array(floats.buffer);
  const end = start + into.byteLength;
  for (const [index, hash] of manifest.parts.entries()) {
    const first = partStart(manifest, index);
    const [left, right] = [Math.max(start, first), Math.min(end, first + partLength(manifest, index))];
    if (left < right) into.set(await states.get(hash, { start: left - first, end: right - first }), left - start);
  }
  return floats;
}
