// For whom a PNode relays, if it does: orchestrators vouch for the machines of their network. What they say holds for a while,
// and those that wait at the relay are asked about again, so that one that was sent away does not stay.

import { DcnrError, fail, hasCode } from "../core/errors.ts";
import type { Clock } from "../core/world.ts";
import { VouchingService } from "../protocol/gen/dcnr/v1/relay_pb.ts";
import type { Orchestrators } from "./orchestrators.ts";

const vouchedMs = 60_000;
const vouchedMax = 10_000;
/** Strangers cost orchestrators a question each, not one each time that they knock. */
const deniedMs = 5_000;
const askedAtOnce = 16;
const vouchAttempts = 3;

/** What the network's key has signed about others: good while no orchestrator can be asked. */
export interface Signed {
  /** A charter names the PNode beside this one. */
  readonly isCrew: (pnode: string) => boolean;
  /** It is here as gossip knows it, under a permit. */
  readonly isPermitted: (pnode: string) => boolean;
}

const nothingSigned: Signed = { isCrew: () => false, isPermitted: () => false };

export class Vouching {
  readonly #orchestrators: Orchestrators;
  readonly #clock: Pick<Clock, "monotonicMs">;
  readonly #signal: AbortSignal;
  readonly #signed: Signed;
  readonly #vouchedUntilMs = new Map<string, number>();
  readonly #deniedUntilMs = new Map<string, number>();
  #asking = 0;

  constructor(
    orchestrators: Orchestrators,
    clock: Pick<Clock, "monotonicMs">,
    signal: AbortSignal,
    signed: Signed = nothingSigned,
  ) {
    this.#orchestrators = orchestrators;
    this.#clock = clock;
    this.#signal = signal;
    this.#signed = signed;
  }

  /** Fails with `permission_denied` for machines that are not of the network. */
  async check(id: string): Promise<void> {
    const nowMs = this.#clock.monotonicMs();
    if (nowMs < (this.#vouchedUntilMs.get(id) ?? 0)) return;
    if (nowMs < (this.#deniedUntilMs.get(id) ?? 0) || !(await this.isStill(id)))
      fail("permission_denied", `PNode ${id} is not of this network: nothing is relayed for it`);
  }

  /** Asks anew, whatever was said before. */
  async isStill(id: string): Promise<boolean> {
    const isMember = await this.#ask(id);
    const [learned, other] = isMember
      ? [this.#vouchedUntilMs, this.#deniedUntilMs]
      : [this.#deniedUntilMs, this.#vouchedUntilMs];
    other.delete(id);
    if (learned.size >= vouchedMax) learned.clear();
    learned.set(id, this.#clock.monotonicMs() + (isMember ? vouchedMs : deniedMs));
    return isMember;
  }

  async #ask(id: string): Promise<boolean> {
    if (this.#asking >= askedAtOnce)
      throw new DcnrError("resource_exhausted", "too many machines ask to be let in: try again", {
        outlook: "passing",
      });
    this.#asking += 1;
    try {
      const { method } = VouchingService;
      return (await this.#orchestrators.call(method.vouch, { pnode: id }, this.#signal, vouchAttempts)).member;
    } catch (error) {
      const isNobodyThere = hasCode(error, "unavailable") || hasCode(error, "deadline_exceeded");
      if (isNobodyThere && (this.#signed.isCrew(id) || this.#signed.isPermitted(id))) return true;
      throw error;
    } finally {
      this.#asking -= 1;
    }
  }
}
