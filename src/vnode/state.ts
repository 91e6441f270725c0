// The weights and optimizer moments of one VNode in shared memory: made from the seed, saved and restored as
// checkpoints, hashed after every step.

import { fail } from "../core/errors.ts";
import { sha256 } from "../core/hash.ts";
import { randomKey } from "../core/numbers/random.ts";
import type { Tensor } from "../core/tensor.ts";
import type { Executor, Float32Span, KernelCall, SharedBytes } from "../engine/engine.ts";
import type { ParameterPlan, VNodePlan } from "../network/plan.ts";
import type { StateImage } from "../states/cut.ts";
import type { StateReader } from "../states/reader.ts";
import { type Layout, type Place, spanOf, tensorAt } from "./layout.ts";

/** `anchor` and `velocity` are those of rounds: where the round began, and how lanes together moved before. */
type Part = "weights" | "first" | "second" | "anchor" | "velocity";

export class VNodeState {
  readonly #plan: VNodePlan;
  readonly #layout: Layout;
  readonly #executor: Executor;
  readonly #memory: SharedBytes;
  readonly #parts: ReadonlyMap<Part, SharedBytes>;
  readonly #reading = new Set<Promise<void>>();
  /** By parameter name; views of the weights, made once. */
  readonly tensors: ReadonlyMap<string, Tensor>;
  /** Those that stay as they are. */
  readonly frozen: ReadonlyMap<string, Tensor>;
  readonly #frozen: SharedBytes | undefined;
  /** How the device that computes it rounds (src/pnode/rounding.ts); stored with it. Absent on processors, whose class says it all. */
  rounding: string | undefined;

  /** `hasRounds`: lanes learn apart for a while. */
  constructor(plan: VNodePlan, layout: Layout, executor: Executor, hasRounds = false) {
    this.#plan = plan;
    this.#layout = layout;
    this.#executor = executor;
    const bytes = Math.max(layout.weightLength * 4, 4);
    const parts = [...partsOf(plan), ...(hasRounds ? (["anchor", "velocity"] as const) : [])];
    this.#memory = executor.allocate(bytes + (parts.length - 1) * distanceBetween(bytes));
    this.#parts = new Map(parts.map((part, i) => [part, within(this.#memory, i * distanceBetween(bytes), bytes)]));
    this.#frozen =
      layout.frozen.length > 0 ? executor.allocate(4 * (layout.storedLength - layout.weightLength)) : undefined;
    const weights = this.part("weights");
    this.tensors = new Map(layout.parameters.map((place) => [place.name, tensorAt(weights, place)]));
    this.frozen = new Map(layout.frozen.map((place) => [place.name, this.#frozenAt(place)]));
  }

  part(part: Part): SharedBytes {
    const memory = this.#parts.get(part);
    if (memory === undefined) fail("internal", `VNode ${this.#plan.id} keeps no ${part}`);
    return memory;
  }

  /** Where a weight lies. */
  spanOf({ name, start, length }: Place): Float32Span {
    if (!this.frozen.has(name)) return spanOf(this.part("weights"), start, length);
    return spanOf(this.#frozen as SharedBytes, start - this.#layout.weightLength, length);
  }

  #frozenAt(place: Place): Tensor {
    return tensorAt(this.#frozen as SharedBytes, place, this.#layout.weightLength);
  }

  /** About what a snapshot takes. */
  get bytes(): number {
    const { weightLength, storedLength } = this.#layout;
    return 4 * (weightLength * this.#parts.size + storedLength - weightLength);
  }

  /** Drawn by the workers, span by span: a large table would hold the caller's thread up for seconds. */
  async initialise(seed: number): Promise<void> {
    await this.#draw(this.#plan.parameters, seed);
  }

  async #draw(parameters: readonly ParameterPlan[], seed: number): Promise<void> {
    const { parameters: learnt, frozen, weightLength } = this.#layout;
    const places = new Map(learnt.map((place) => [place.name, place]));
    for (const place of frozen) places.set(place.name, { ...place, start: place.start - weightLength });
    const calls = parameters.flatMap((parameter) => {
      const memory = parameter.frozen ? (this.#frozen as SharedBytes) : this.part("weights");
      return initialCalls(parameter, places.get(parameter.name) as Place, memory, seed, this.#plan.id);
    });
    await Promise.all(calls.map((call) => this.#executor.kernel(call)));
  }

  /**
   * A snapshot as `take` makes it, of what the state is now: where a device holds it, it is fetched first, and no update changes it
   * before it was read.
   */
  async take<T extends { readonly taken: Promise<unknown> }>(step: number, take: (image: StateImage) => T): Promise<T> {
    const fetching = this.download();
    const taking = fetching === undefined ? take(this.snapshot(step)) : fetching.then(() => take(this.snapshot(step)));
    this.keepUntil("then" in taking ? taking.then(({ taken }) => taken) : taking.taken);
    return taking;
  }

  /** Resolves when the caller's views hold the state; undefined where they always do. */
  download(): Promise<void> | undefined {
    const { weightLength } = this.#layout;
    return this.#executor.download([...this.#parts.values()].map((memory) => spanOf(memory, 0, weightLength)));
  }

  /** Views of everything: whoever takes longer to read them than until the next update says so by `keepUntil`. */
  snapshot(step: number): StateImage {
    // In front and apart: their parts are those of the state that the network started from, whatever learns.
    const tensors = new Map<string, Tensor>(this.frozen);
    for (const [part, memory] of this.#parts)
      for (const place of this.#layout.parameters) tensors.set(nameIn(part, place.name), tensorAt(memory, place));
    const metadata = { vnode: this.#plan.id, step: String(step), ...(this.rounding && { rounding: this.rounding }) };
    const apartBytes = [...this.frozen.values()].reduce((sum, { data }) => sum + data.byteLength, 0);
    return { metadata, tensors, ...(apartBytes > 0 && { apartBytes }) };
  }

  /** No update changes anything before `read` has settled: a large state is read where it lies. */
  keepUntil(read: Promise<unknown>): void {
    const reading: Promise<void> = read.then(
      () => {},
      () => {},
    );
    this.#reading.add(reading);
    void reading.then(() => this.#reading.delete(reading));
  }

  /** What has to be waited for before weights or moments change; undefined if nobody reads them. */
  get beingRead(): Promise<unknown> | undefined {
    return this.#reading.size === 0 ? undefined : Promise.all(this.#reading);
  }

  async restore(file: StateReader, step: number): Promise<void> {
    const { vnode, step: storedStep } = file.metadata;
    if (vnode !== this.#plan.id || storedStep !== String(step))
      fail("data_loss", `${file.what} says it is of VNode ${vnode} at step ${storedStep}`);
    await this.#load(file, [...this.#parts.keys()], new Set());
  }

  /** Weights alone; moments start at zero. Adapters that are not in it are drawn. */
  async adopt(file: StateReader, seed: number): Promise<void> {
    const missing = this.#plan.parameters.filter(({ adapter, name }) => adapter && !file.has(name));
    await this.#draw(missing, seed);
    await this.#load(file, ["weights"], new Set(missing.map(({ name }) => name)));
  }

  async #load(file: StateReader, parts: readonly Part[], missing: ReadonlySet<string>): Promise<void> {
    const learnt = parts.flatMap((part) =>
      this.#layout.parameters
        .filter(({ name }) => !missing.has(name))
        .map((place) => ({ name: nameIn(part, place.name), tensor: tensorAt(this.part(part), place) })),
    );
    const frozen = Array.from(this.frozen, ([name, tensor]) => ({ name, tensor }));
    const wanted = [...learnt, ...frozen].map(({ name, tensor }) => {
      return { name, shape: tensor.shape, tensor, into: tensor.data as Float32Array };
    });
    await file.readInto(wanted);
    this.#executor.upload(wanted.map(({ tensor }) => tensor));
    for (const { name, tensor } of wanted) {
      if (tensor.data.length === 0) continue;
      const { value } = await this.#executor.kernel({ kind: "finite", of: tensor });
      if (value !== 1) fail("data_loss", `${file.what}: ${name} holds NaN or infinity`);
    }
  }

  /** The digest of all weights. */
  digestCall(): KernelCall {
    return { kind: "digest", of: spanOf(this.part("weights"), 0, this.#layout.weightLength) };
  }

  /** The step hash: what two runs compare. */
  async hash(step: number): Promise<string> {
    if (this.#layout.weightLength === 0) return stepHash(this.#plan.id, step, "");
    const { digest } = await this.#executor.kernel(this.digestCall());
    return stepHash(this.#plan.id, step, digest ?? "");
  }

  free(): void {
    this.#executor.free(this.#memory);
    if (this.#frozen !== undefined) this.#executor.free(this.#frozen);
  }
}

/** Updates walk all parts side by side, fastest when they are in one memory and not a multiple of 4 KiB apart. */
function distanceBetween(bytes: number): number {
  return Math.ceil(bytes / 4096) * 4096 + 1088;
}

function within({ buffer, offset }: SharedBytes, start: number, bytes: number): SharedBytes {
  return { buffer, offset: offset + start, bytes };
}

export function stepHash(vnode: string, step: number, digest: string): string {
  return sha256(`${vnode}\n${step}\n${digest}`);
}

function partsOf(plan: VNodePlan): Part[] {
  if (plan.parameters.length === 0) return ["weights"];
  if (plan.optimizer.kind === "sgd") return plan.optimizer.momentum === 0 ? ["weights"] : ["weights", "first"];
  return ["weights", "first", "second"];
}

function nameIn(part: Part, parameter: string): string {
  if (part === "weights") return parameter;
  return part === "anchor" || part === "velocity" ? `round.${part}.${parameter}` : `optimizer.${part}.${parameter}`;
}

/** Elements of one kernel call, a multiple of 4: some milliseconds of a worker. */
const initialSpanElements = 1 << 18;

function initialCalls(
  { name, initial }: ParameterPlan,
  { start, length }: Place,
  weights: SharedBytes,
  seed: number,
  vnode: string,
): KernelCall[] {
  const calls: KernelCall[] = [];
  for (let from = 0; from < length; from += initialSpanElements) {
    const into = spanOf(weights, start + from, Math.min(initialSpanElements, length - from));
    const key = () => randomKey("initial", seed, vnode, name);
    switch (initial.kind) {
      case "constant":
        calls.push({ kind: "fill", into, value: initial.value });
        break;
      case "normal":
        calls.push({ kind: "normal", into, key: key(), deviation: initial.deviation, from });
        break;
      case "uniform":
        calls.push({ kind: "uniform", into, key: key(), low: -initial.bound, high: initial.bound, from });
        break;
    }
  }
  return calls;
}
