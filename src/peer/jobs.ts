// What a link has to send, in the order in which it goes: what somebody stands still for first. Nothing here knows of streams.

import type { MessageInitShape } from "@bufbuild/protobuf";
import type { AskSchema, LostPassSchema } from "../protocol/gen/dcnr/v1/exchange_pb.ts";
import type { Outcome, Parcel } from "./parcel.ts";

export type Ask = Omit<MessageInitShape<typeof AskSchema>, "id" | "$typeName">;
export type AskAnswer = "coming" | "gone" | "moved" | "broken";
export type Note = MessageInitShape<typeof LostPassSchema>;

/** `done` is called once, whatever becomes of it. */
export type Job =
  | { readonly kind: "parcel"; readonly parcel: Parcel; readonly done: (outcome: Outcome, why: string) => void }
  | { readonly kind: "ask"; readonly ask: Ask; readonly done: (answer: AskAnswer) => void }
  | { readonly kind: "note"; readonly note: Note };

/** What waits beyond this is given up; whoever misses it asks. */
const jobsMax = 4_096;

export class Jobs {
  #urgent: Job[] = [];
  #usual: Job[] = [];

  add(job: Job, urgent: boolean): void {
    (urgent ? this.#urgent : this.#usual).push(job);
    if (this.#usual.length + this.#urgent.length > jobsMax) giveUp((this.#usual.pop() ?? this.#urgent.pop()) as Job);
  }

  next(): Job | undefined {
    return this.#urgent.shift() ?? this.#usual.shift();
  }

  /** One that does not wait until a large tensor has gone. */
  nextUrgent(): Job | undefined {
    return this.#urgent.shift();
  }

  takeAll(): readonly Job[] {
    const all = [...this.#urgent, ...this.#usual];
    this.#urgent = [];
    this.#usual = [];
    return all;
  }
}

export function giveUp(job: Job): void {
  if (job.kind === "ask") job.done("broken");
  if (job.kind === "parcel") job.done("broken", "");
}

/** What breaks while it is written is noticed by the writer and by the reader. */
export function once<Args extends unknown[]>(callback: (...args: Args) => void): (...args: Args) => void {
  let called = false;
  return (...args) => {
    if (called) return;
    called = true;
    callback(...args);
  };
}
