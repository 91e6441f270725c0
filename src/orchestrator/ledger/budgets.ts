// How much may be spent: a session has a budget of its own, and its owner may have one for all of its sessions. Whoever has
// spent it is told so, and stops at a line from which it goes on when there is more.

import { fail } from "../../core/errors.ts";
import type { Context } from "../context.ts";
import type { BudgetRecord } from "../records/accounts.ts";
import type { SessionRecord } from "../records/sessions.ts";
import { key, prefix } from "../records/store-keys.ts";
import type { Ledger } from "./ledger.ts";

/** For sentences: who makes sessions without an API key. */
export function ownerCalled(owner: string): string {
  return owner === "" ? "callers on the orchestrator's own machine" : owner;
}

export class Budgets {
  readonly #context: Context;
  readonly #ledger: Ledger;

  constructor(context: Context, ledger: Ledger) {
    this.#context = context;
    this.#ledger = ledger;
  }

  /** 0 for no bound. */
  async set(owner: string, credits: number): Promise<void> {
    if (!Number.isSafeInteger(credits) || credits < 0)
      fail("invalid_argument", `a budget of ${credits} credits is not a whole number from 0 on`);
    const { mirror } = this.#context;
    if (credits === 0) await mirror.remove(key.budget(owner));
    else await mirror.update(key.budget(owner), () => ({ owner, credits }));
  }

  all(): BudgetRecord[] {
    return this.#context.mirror.under(prefix.budgets);
  }

  /** What an owner's sessions may still spend together; undefined where nobody set a bound. */
  left(owner: string): number | undefined {
    const bound = this.#context.mirror.get(key.budget(owner))?.credits;
    return bound === undefined ? undefined : bound - this.#ledger.spentBy(owner);
  }

  /** Why a session may not go on; undefined while it may. By what this orchestrator has read of the ledger. */
  exhausted({ id, policy, owner = "" }: SessionRecord): string | undefined {
    const spent = this.#ledger.spent(id);
    if (policy.budget !== undefined && spent >= policy.budget)
      return `its budget of ${policy.budget} credits is spent (${spent}): dcnr session resume ${id} --budget CREDITS`;
    const bound = this.#context.mirror.get(key.budget(owner))?.credits;
    if (bound === undefined) return undefined;
    const together = this.#ledger.spentBy(owner);
    return together >= bound
      ? `the budget of ${bound} credits of ${ownerCalled(owner)} is spent (${together}): an operator can raise it with dcnr credits budget`
      : undefined;
  }
}
