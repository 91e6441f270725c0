// Where a VNode's neighbour has several owners and what they say is checked, a message counts once all of them have said the
// same. Remembers what each has said; what they contradict each other in is evidence.

import type { VNodeId } from "../../core/ids.ts";
import type { Effect, Verdict } from "../../vnode/effects.ts";
import type { MessageName } from "../../vnode/names.ts";
import { edgeToward, type Role } from "../../vnode/role.ts";
import { Agreement } from "./agreement.ts";
import { fromSource, toSource } from "./names.ts";
import type { Arrival, Asker } from "./receiver.ts";
import type { StoredTensor } from "./retention.ts";

export type EvidenceFound = Extract<Effect<StoredTensor, Asker>, { kind: "evidence" }>;

export interface HearingOptions {
  readonly role: Role;
  /** What senders say is checked; where it is not, the first word counts. */
  readonly isChecked: boolean;
  readonly owners: (vnode: VNodeId) => number;
  /** Nobody needs what was said of steps before this one. */
  readonly step: () => number;
  /** All have said so: gives the process's verdict, undefined if it comes later. */
  readonly onAgreed: (arrival: Arrival) => Verdict | undefined;
  readonly onEvidence: (evidence: EvidenceFound) => void;
}

export class Hearing {
  readonly #options: HearingOptions;
  readonly #agreement = new Agreement<Arrival>();

  constructor(options: HearingOptions) {
    this.#options = options;
  }

  /** Of the VNode that sends a message: how many have to say it. */
  ownersOf({ edge, direction }: MessageName): number {
    const { role, isChecked, owners } = this.#options;
    if (!isChecked) return 1;
    const found = edgeToward(role, edge, direction);
    const sender = direction === "forward" ? found?.from : found?.to;
    return sender === undefined ? 1 : owners(sender);
  }

  /** What becomes of a message that one of several owners sent; undefined if its bytes are needed first. */
  hear(arrival: Arrival, owners: number): Verdict | undefined {
    const { name, hash, from } = arrival;
    const said = { name, hash, by: fromSource(from).pnode };
    const other = this.#agreement.contradicted(said);
    if (other !== undefined) {
      const first = { from: toSource(other.by, 0), hash: other.hash };
      this.#options.onEvidence({ kind: "evidence", name, first, second: { from, hash } });
    }
    const heard = this.#agreement.hear(said, arrival.tensor && arrival, owners);
    this.#forgetBelow(this.#options.step());
    if ("unused" in heard) heard.unused?.tensor?.release();
    if (heard.kind === "wanted") return undefined;
    if (heard.kind === "waiting") return "stored";
    return this.#options.onAgreed(heard.content) ?? "stored";
  }

  /** Gives back what waits. */
  close(): void {
    this.#forgetBelow(Number.POSITIVE_INFINITY);
  }

  #forgetBelow(step: number): void {
    for (const one of this.#agreement.forgetBelow(step)) one.tensor?.release();
  }
}
