// Records of the ledger beside its blocks and heads, which are in ledger/.

/** A chain of the ledger: written with its first block, so that all of them can be listed. Blocks are ledger/block.ts. */
export interface ChainRecord {
  readonly name: string;
  /** Whose budget a session's chain counts towards. */
  readonly owner: string;
}

/** What the sessions of one owner may spend together. */
export interface BudgetRecord {
  readonly owner: string;
  readonly credits: number;
}
