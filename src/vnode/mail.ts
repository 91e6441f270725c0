// What a VNode gets from others and what it sends: the rules of receipt, what is asked for, and what is kept of what was sent for those
// who replay. It decides nothing about computing; process.ts does.

import { assert, unreachable } from "../core/assert.ts";
import type { PlanEdge } from "../network/plan.ts";
import type { Drawn, Effect, ProcessEvent, Verdict } from "./effects.ts";
import type { Admission, Inbox } from "./inbox.ts";
import { type Listening, type Missing, sourceKey } from "./listening.ts";
import type { Direction, MessageName, Sealed } from "./names.ts";
import type { Outbox } from "./outbox.ts";

type Arrival<Payload> = Extract<ProcessEvent<Payload, never>, { kind: "arrived" }>;

export interface MailOptions<Payload, Asker> {
  readonly inbox: Inbox<Payload>;
  readonly outbox: Outbox<Payload>;
  readonly listening: Listening<Payload>;
  /** Steps of the session: what is sent after the last one belongs to the last interval. */
  readonly steps: number;
  readonly line: number;
  readonly emit: (effect: Effect<Payload, Asker>) => void;
}

export class Mail<Payload, Asker> {
  readonly #inbox: Inbox<Payload>;
  readonly #outbox: Outbox<Payload>;
  readonly #listening: Listening<Payload>;
  readonly #steps: number;
  readonly #emit: (effect: Effect<Payload, Asker>) => void;
  #line: number;
  /** Toward these, messages are locked. */
  #drawn: readonly Drawn[] = [];

  constructor({ inbox, outbox, listening, steps, line, emit }: MailOptions<Payload, Asker>) {
    this.#inbox = inbox;
    this.#outbox = outbox;
    this.#listening = listening;
    this.#steps = steps;
    this.#line = line;
    this.#emit = emit;
  }

  get line(): number {
    return this.#line;
  }

  payloads(): Payload[] {
    return [...this.#inbox.payloads(), ...this.#outbox.payloads()];
  }

  admit(name: MessageName, hash: string, step: number): Admission {
    return this.#inbox.admit(name, hash, step);
  }

  receive({ name, hash, payload, from }: Arrival<Payload>, step: number): Verdict {
    const admission = this.admit(name, hash, step);
    switch (admission) {
      case "wanted":
        if (payload === undefined) {
          this.#listening.pulled.add(sourceKey(name));
          return "wait";
        }
        this.#inbox.store(name, { hash, payload }, from);
        return "stored";
      case "beyond":
        this.#listening.pulled.add(sourceKey(name));
        return "wait";
      case "conflict": {
        const first = this.#inbox.witness(name);
        assert(first !== undefined, "a conflict has a first witness");
        this.#emit({ kind: "evidence", name, first, second: { from, hash } });
        return "dropped";
      }
      case "duplicate":
      case "old":
        return "dropped";
      case "unknown":
        return "refused";
      default:
        return unreachable(admission, "admission");
    }
  }

  /** Asks at once for what was sent before it listened. */
  askForPulled(missing: readonly Missing[]): void {
    for (const { whom, key, names } of missing)
      if (this.#listening.pulled.has(key)) this.#emit({ kind: "ask", whom, names });
  }

  askForAll(missing: readonly Missing[]): void {
    for (const { whom, key, names } of missing) {
      // Asked and still not there: the neighbour has yet to compute it and will send it by itself from now on.
      this.#listening.pulled.delete(key);
      this.#emit({ kind: "ask", whom, names });
    }
  }

  isPulled(missing: readonly Missing[]): boolean {
    return missing.some(({ key }) => this.#listening.pulled.has(key));
  }

  send(step: number, edge: PlanEdge, direction: Direction, microbatch: number, sealed?: Sealed<Payload>): void {
    assert(sealed !== undefined, `there is a content for ${direction} ${edge.id}`);
    const name: MessageName = { step, microbatch, edge: edge.id, direction };
    const to = direction === "forward" ? edge.to : edge.from;
    const message = { name, to, hash: sealed.hash, payload: sealed.payload };
    this.#outbox.retain(message);
    this.#emit({ kind: "send", message });
    if (this.#drawn.some((one) => this.#isFor(one, message))) this.#emit({ kind: "lock", messages: [message] });
  }

  asked(names: readonly MessageName[], asker: Asker): void {
    const found = names.map((name) => this.#outbox.find(name));
    const gone = found.some((item) => item.kind === "gone");
    const step = names.reduce((lowest, name) => Math.min(lowest, name.step), Number.POSITIVE_INFINITY);
    this.#emit({ kind: "answer", asker, step, outcome: gone ? "gone" : "coming" });
    if (gone) return;
    for (const item of found) if (item.kind === "here") this.#emit({ kind: "deliver", message: item.message, asker });
  }

  lock(drawn: readonly Drawn[]): void {
    const known = this.#drawn;
    this.#drawn = drawn;
    const added = drawn.filter(
      ({ vnode, from, to }) => !known.some((one) => one.vnode === vnode && one.from === from && one.to === to),
    );
    const messages = this.#outbox.messages().filter((message) => added.some((one) => this.#isFor(one, message)));
    if (messages.length > 0) this.#emit({ kind: "lock", messages });
  }

  /** Validation after the last update belongs to the last interval. */
  #isFor({ vnode, from, to }: Drawn, { to: receiver, name }: { to: string; name: MessageName }): boolean {
    return receiver === vnode && name.step >= from && (name.step < to || to === this.#steps);
  }

  lineAdvanced(line: number): void {
    if (line <= this.#line) return;
    this.#line = line;
    this.#inbox.forgetBelow(line);
    const released = this.#outbox.collect(line);
    if (released.length > 0) this.#emit({ kind: "collect", below: line, released });
  }

  /** Borrowed weights of a step that is over. */
  dropTies(step: number): void {
    const released = this.#listening.dropTies(step);
    if (released.length > 0) this.#emit({ kind: "collect", below: step, released });
  }
}
