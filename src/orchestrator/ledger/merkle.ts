// Trees of hashes as in RFC 6962: one root speaks for a whole list, a path of a few hashes shows that an item is in it,
// and a root of a list that grows costs a few hashes for each item, not the whole list.

import { sha256 } from "../../core/hash.ts";
import type { Sha256 } from "../../core/ids.ts";

/** Leaves and nodes are hashed apart, so that no node passes for a leaf. */
export function leafHash(content: string): Sha256 {
  return sha256(`leaf ${content}`);
}

function nodeHash(left: Sha256, right: Sha256): Sha256 {
  return sha256(`node ${left} ${right}`);
}

export const emptyRoot: Sha256 = sha256("empty");

/** The root of a list that only grows: keeps one hash for each full subtree. */
export class GrowingTree {
  /** Full subtrees from the left, the largest first, with how many leaves each has. */
  readonly #full: { hash: Sha256; leaves: number }[] = [];
  #size = 0;

  get size(): number {
    return this.#size;
  }

  add(leaf: Sha256): void {
    this.#size += 1;
    let grown = { hash: leaf, leaves: 1 };
    for (let last = this.#full.at(-1); last?.leaves === grown.leaves; last = this.#full.at(-1)) {
      this.#full.pop();
      grown = { hash: nodeHash(last.hash, grown.hash), leaves: 2 * grown.leaves };
    }
    this.#full.push(grown);
  }

  get root(): Sha256 {
    const [last, ...before] = this.#full.map(({ hash }) => hash).reverse();
    return last === undefined ? emptyRoot : before.reduce((right, left) => nodeHash(left, right), last);
  }
}

export function rootOf(leaves: readonly Sha256[]): Sha256 {
  const tree = new GrowingTree();
  for (const leaf of leaves) tree.add(leaf);
  return tree.root;
}

/** The hashes beside the way from a leaf to the root, from below. */
export function pathTo(leaves: readonly Sha256[], index: number): Sha256[] {
  if (leaves.length <= 1) return [];
  const cut = largestPowerBelow(leaves.length);
  const [left, right] = [leaves.slice(0, cut), leaves.slice(cut)];
  return index < cut ? [...pathTo(left, index), rootOf(right)] : [...pathTo(right, index - cut), rootOf(left)];
}

/** The root that a list of `size` leaves has if `leaf` stands at `index` beside those hashes; undefined if none can. */
export function rootFromPath(leaf: Sha256, index: number, size: number, path: readonly Sha256[]): Sha256 | undefined {
  if (index >= size) return undefined;
  if (size === 1) return path.length === 0 ? leaf : undefined;
  const beside = path.at(-1);
  if (beside === undefined) return undefined;
  const cut = largestPowerBelow(size);
  const below = path.slice(0, -1);
  const own = index < cut ? rootFromPath(leaf, index, cut, below) : rootFromPath(leaf, index - cut, size - cut, below);
  if (own === undefined) return undefined;
  return index < cut ? nodeHash(own, beside) : nodeHash(beside, own);
}

function largestPowerBelow(size: number): number {
  let power = 1;
  while (2 * power < size) power *= 2;
  return power;
}
