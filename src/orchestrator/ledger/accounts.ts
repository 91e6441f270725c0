// The accounts of the ledger and who may take from them. Each account is debited by one chain only, so that one writer's
// compare-and-set on one chain is enough to keep it from being spent twice.

/** Everything that is not about one session: payouts and bonds. No session can be called so, its name ends with a hash. */
export const payoutsChain = "payouts";

export const account = {
  /** Where a session's credits come from. It alone may be below zero: by what the session has spent. */
  mint: (session: string) => `mint/${session}`,
  /** Earned, and lost again if the PNode is convicted before it vests. */
  escrow: (session: string, pnode: string) => `escrow/${session}/${pnode}`,
  available: (pnode: string) => `available/${pnode}`,
  /** Laid down by the PNode as a surety. */
  bond: (pnode: string) => `bond/${pnode}`,
  /** Paid for outside of DCNR. */
  outside: (pnode: string) => `outside/${pnode}`,
  /** Taken from convicts, and nobody's loss. */
  forfeit: (chain: string) => `forfeit/${chain}`,
};

/** The only chain that takes from an account; undefined where nobody ever does. */
export function debtorOf(name: string): string | undefined {
  const [kind, first = ""] = name.split("/");
  switch (kind) {
    case "mint":
    case "escrow":
      return first;
    case "available":
    case "bond":
      return payoutsChain;
    default:
      return undefined;
  }
}

export function mayBeNegative(name: string): boolean {
  return name.startsWith("mint/");
}

const flopsPerCredit = 1_000_000n;

/**
 * What steps (from, to] are worth: one credit is a million floating-point operations by the static cost model. The
 * difference of two rounded sums, so that nothing is lost however a training is cut into intervals.
 */
export function creditsOf(flopsPerStep: number, from: number, to: number): number {
  const flops = BigInt(Math.round(flopsPerStep));
  const upTo = (step: number) => (flops * BigInt(step)) / flopsPerCredit;
  return Number(upTo(to) - upTo(from));
}
