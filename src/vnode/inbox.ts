// What a VNode has received and not consumed yet, and the rules of receipt: an older step is dropped, a name is
// stored once, another hash under a known name is evidence, and what lies beyond the window has to wait.

import type { PlanEdge } from "../network/plan.ts";
import { roundAt } from "../network/rounds.ts";
import type { RoundBook } from "./book.ts";
import { acrossLanes } from "./lanes/across-lanes.ts";
import { keyOf, type MessageName, type Sealed, wholeStep } from "./names.ts";
import { edgeToward, type Role } from "./role.ts";
import { microbatchCount, type Schedule, trainingCount } from "./schedule.ts";

/** A neighbour is at most one step ahead where gradients flow; more would only fill memory. */
const stepsAheadMax = 1;

export type Admission = "wanted" | "duplicate" | "conflict" | "old" | "beyond" | "unknown";

export class Inbox<Payload> {
  readonly #role: Role;
  readonly #schedule: Schedule;
  readonly #book: RoundBook;
  readonly #held = new Map<string, Sealed<Payload>>();
  /** Hashes of all that was received from the recovery line on, to notice contradictions. */
  readonly #seen = new Map<string, { step: number; hash: string; from: string }>();

  constructor(role: Role, schedule: Schedule, book: RoundBook) {
    this.#role = role;
    this.#schedule = schedule;
    this.#book = book;
  }

  /** What would become of a message; costs nothing, so it is asked before memory is taken for it. */
  admit(name: MessageName, hash: string, currentStep: number): Admission {
    const edge = edgeToward(this.#role, name.edge, name.direction);
    if (edge === undefined || !this.#isStep(name.step)) return "unknown";
    if (!this.#isKnown(edge, name.step)) return name.step < currentStep ? "old" : "beyond";
    if (!this.#namesExist(edge, name)) return "unknown";
    const seen = this.#seen.get(keyOf(name));
    if (seen !== undefined) return contradict(seen.hash, hash) ? "conflict" : "duplicate";
    if (name.step < currentStep) return "old";
    if (name.step > currentStep + stepsAheadMax && !this.#endsRound(name, currentStep)) return "beyond";
    return "wanted";
  }

  /** A lane that is ahead is done with the round that this one is in: what it learned is taken at any time. */
  #endsRound(name: MessageName, currentStep: number): boolean {
    const isOuter = edgeToward(this.#role, name.edge, name.direction)?.kind === "outer";
    return isOuter && name.step === roundAt(this.#schedule, currentStep)?.last;
  }

  store(name: MessageName, sealed: Sealed<Payload>, from: string): void {
    this.#held.set(keyOf(name), sealed);
    this.#seen.set(keyOf(name), { step: name.step, hash: sealed.hash, from });
  }

  has(name: MessageName): boolean {
    return this.#held.has(keyOf(name));
  }

  /** The hash and sender under which a name was first received. */
  witness(name: MessageName): { hash: string; from: string } | undefined {
    return this.#seen.get(keyOf(name));
  }

  take(name: MessageName): Payload | undefined {
    const key = keyOf(name);
    const sealed = this.#held.get(key);
    this.#held.delete(key);
    return sealed?.payload;
  }

  /** Tied weights serve all microbatches of a step, so looking does not consume them. */
  peek(name: MessageName): Payload | undefined {
    return this.#held.get(keyOf(name))?.payload;
  }

  forgetBelow(line: number): void {
    for (const [key, { step }] of this.#seen) if (step < line) this.#seen.delete(key);
  }

  /** All payloads still held, for a host that gives the VNode up. */
  payloads(): Payload[] {
    return [...this.#held.values()].map((sealed) => sealed.payload);
  }

  #isStep(step: number): boolean {
    return Number.isSafeInteger(step) && step >= 0 && step <= this.#schedule.steps;
  }

  /** Whether it is known what is sent on an edge in a step: others may have heard of a round before. */
  #isKnown({ kind }: PlanEdge, step: number): boolean {
    return kind === "outer" ? this.#book.isClosed(step) : this.#book.isPlanned(step);
  }

  #namesExist(edge: PlanEdge, name: MessageName): boolean {
    const { microbatches } = this.#schedule;
    const training = trainingCount(this.#schedule, name.step, this.#book);
    const all = microbatchCount(this.#schedule, name.step);
    if (edge.kind === "reduce" || edge.kind === "outer") {
      const { of, ins, outs } = acrossLanes(this.#role, this.#schedule, name.step, this.#book);
      const edges = name.direction === "forward" ? ins : outs;
      return name.microbatch === wholeStep && of === edge.kind && edges.includes(edge);
    }
    if (edge.kind === "tie") {
      if (name.microbatch !== wholeStep) return false;
      return name.direction === "backward" ? training > 0 : training > 0 || all > microbatches;
    }
    if (!Number.isSafeInteger(name.microbatch) || name.microbatch < 0) return false;
    if (name.direction === "backward") return name.microbatch < training;
    return name.microbatch < training || (name.microbatch >= microbatches && name.microbatch < all);
  }
}

/** What was not hashed came from this PNode itself, from the only owner that it knows: there is nothing to compare. */
function contradict(first: string, second: string): boolean {
  return first !== "" && second !== "" && first !== second;
}
