// The ledger as files that anybody can check without asking anybody: the whole of it, one block a line under a signed head;
// and a statement of what some accounts were credited, each entry with the hashes that lead from it to the signed head.

import { fail } from "../../core/errors.ts";
import { canonicalJson } from "../../core/hash.ts";
import type { KeyId, Sha256 } from "../../core/ids.ts";
import type { Verify } from "../../core/keys.ts";
import { type Block, hashOfBlock, parseBlock, textOfBlock } from "./block.ts";
import { Chain } from "./chain.ts";
import { type ChainEnd, leafOfEnd, rootOfEnds, type SignedHead, signerOf, sortedEnds } from "./heads.ts";
import { leafHash, pathTo, rootFromPath } from "./merkle.ts";

const wholeFormat = "dcnr ledger 1";
const statementFormat = "dcnr ledger statement 1";

export interface Verdict {
  /** What is wrong, a sentence each; empty: nothing. */
  readonly problems: readonly string[];
  /** Whose ledger it is; undefined if nobody's key has signed it. */
  readonly network: KeyId | undefined;
  readonly head: SignedHead;
  readonly blocks: number;
  /** Credits by account: of the whole ledger, or of what a statement shows. */
  readonly credits: ReadonlyMap<string, number>;
}

/** `blocks` in the order of their chains' names and indices, up to what the head speaks for. */
export function* wholeFile(head: SignedHead, blocks: Iterable<Block>): Generator<string> {
  yield canonicalJson({ format: wholeFormat, head });
  for (const block of blocks) yield textOfBlock(block);
}

interface Entry {
  readonly block: Block;
  /** Beside the way from the block to its chain's root. */
  readonly path: readonly Sha256[];
  readonly end: ChainEnd;
  /** The chain's place among all, and beside the way from there to the head's root. */
  readonly place: number;
  readonly endPath: readonly Sha256[];
}

/** Every block that moves credits to or from an account that `concerns` tells. */
export function statementFile(
  head: SignedHead,
  chains: ReadonlyMap<string, readonly Block[]>,
  concerns: (account: string) => boolean,
): string {
  const ends: ChainEnd[] = [];
  const hashes = new Map<string, Sha256[]>();
  for (const [name, blocks] of [...chains].sort(([a], [b]) => (a < b ? -1 : 1))) {
    const chain = new Chain(name);
    for (const block of blocks) chain.take(block);
    ends.push({ chain: name, size: chain.size, root: chain.root });
    hashes.set(
      name,
      blocks.map((block) => leafHash(hashOfBlock(block))),
    );
  }
  const leaves = ends.map(leafOfEnd);
  const entries = ends.flatMap((end, place) =>
    (chains.get(end.chain) ?? [])
      .filter(({ transfer }) => Object.keys(transfer.legs).some(concerns))
      .map((block): Entry => {
        const path = pathTo(hashes.get(end.chain) ?? [], block.index);
        return { block, path, end, place, endPath: pathTo(leaves, place) };
      }),
  );
  return canonicalJson({ format: statementFormat, head, entries });
}

/** Judges either kind of file by its lines. Throws `data_loss` if it is neither. */
export async function verifyFile(lines: AsyncIterable<string> | Iterable<string>, verify: Verify): Promise<Verdict> {
  let verifier: WholeVerifier | undefined;
  let count = 0;
  for await (const line of lines) {
    count += 1;
    if (line.trim() === "") continue;
    if (verifier) verifier.take(parseBlock(line, `line ${count}`));
    else {
      const first = parseFirst(line);
      if (first.format === statementFormat) return verifyStatement(first.head, first.entries, verify);
      verifier = new WholeVerifier(first.head, verify);
    }
  }
  return verifier ? verifier.verdict() : fail("data_loss", "the file is empty");
}

function parseFirst(line: string): { format: string; head: SignedHead; entries: readonly Entry[] } {
  let value: { format?: unknown; head?: SignedHead; entries?: readonly Entry[] } | null = null;
  try {
    value = JSON.parse(line);
  } catch {
    // Said below.
  }
  const { format, head, entries = [] } = value ?? {};
  const isKnown = format === wholeFormat || format === statementFormat;
  if (!isKnown || !isHead(head) || !Array.isArray(entries))
    return fail("data_loss", "this is no ledger: dcnr credits export writes what can be verified");
  return { format, head, entries };
}

function isHead(head: SignedHead | undefined): head is SignedHead {
  return (
    head !== null &&
    typeof head === "object" &&
    [head.previous, head.root, head.publicKey, head.signature].every((text) => typeof text === "string") &&
    [head.number, head.chains, head.wallMs].every((value) => typeof value === "number")
  );
}

/** Its block is judged as every block is. */
function isEntry(entry: unknown): entry is Entry {
  if (entry === null || typeof entry !== "object") return false;
  const { path, end, place, endPath } = entry as Partial<Entry>;
  const isPath = (one: unknown) => Array.isArray(one) && one.every((hash) => typeof hash === "string");
  const isPlace = (one: unknown) => Number.isSafeInteger(one) && (one as number) >= 0;
  if (end === null || typeof end !== "object" || typeof end.chain !== "string" || typeof end.root !== "string")
    return false;
  return isPath(path) && isPath(endPath) && isPlace(place) && isPlace(end.size);
}

class WholeVerifier {
  readonly #head: SignedHead;
  readonly #verify: Verify;
  readonly #chains = new Map<string, Chain>();
  readonly #problems: string[] = [];
  #blocks = 0;

  constructor(head: SignedHead, verify: Verify) {
    this.#head = head;
    this.#verify = verify;
  }

  take(block: Block): void {
    const chain = this.#chains.get(block.chain) ?? new Chain(block.chain);
    this.#chains.set(block.chain, chain);
    this.#problems.push(...chain.take(block));
    this.#blocks += 1;
  }

  verdict(): Verdict {
    const network = signerOf(this.#head, this.#verify);
    const credits = new Map<string, number>();
    for (const { balances } of this.#chains.values())
      for (const [name, amount] of balances) credits.set(name, (credits.get(name) ?? 0) + amount);
    const problems = [...this.#problems];
    for (const [name, amount] of credits)
      if (amount < 0 && name.startsWith("available/")) problems.push(`${name} is overdrawn: ${amount}`);
    const ends = sortedEnds(this.#chains.values());
    if (rootOfEnds(ends) !== this.#head.root || ends.length !== this.#head.chains)
      problems.push(`the blocks are not those that head ${this.#head.number} speaks for`);
    if (network === undefined) problems.push(`nobody's key has signed head ${this.#head.number}`);
    return { problems, network, head: this.#head, blocks: this.#blocks, credits };
  }
}

function verifyStatement(head: SignedHead, entries: readonly Entry[], verify: Verify): Verdict {
  const problems: string[] = [];
  const credits = new Map<string, number>();
  const seen = new Set<string>();
  for (const [position, entry] of entries.entries()) {
    if (!isEntry(entry)) fail("data_loss", `entry ${position + 1} is none of a statement`);
    const { path, end, place, endPath } = entry;
    const block = parseBlock(JSON.stringify(entry.block), `entry ${position + 1}`);
    const where = `${block.chain}/${block.index}`;
    if (seen.has(where)) problems.push(`${where} stands there twice`);
    seen.add(where);
    const own = end.chain === block.chain && rootFromPath(leafHash(hashOfBlock(block)), block.index, end.size, path);
    const all = rootFromPath(leafOfEnd(end), place, head.chains, endPath);
    if (own !== end.root || all !== head.root) problems.push(`${where} is not in the ledger of head ${head.number}`);
    for (const [name, amount] of Object.entries(block.transfer.legs))
      credits.set(name, (credits.get(name) ?? 0) + amount);
  }
  const network = signerOf(head, verify);
  if (network === undefined) problems.push(`nobody's key has signed head ${head.number}`);
  return { problems, network, head, blocks: entries.length, credits };
}
