// Leave to move the blobs of a state is asked for in groups: a question for each part would cost small states more than
// their bytes do. Groups are small enough that a slow line uses a grant up while it still holds.

import type { Sha256 } from "../core/ids.ts";

export interface MovedBlob {
  readonly hash: Sha256;
  readonly bytes: number;
}

/** Named in one question at most; whoever asks for more is refused. */
export const grantsAtOnceMax = 64;
/** Four parts: at 143 KB/s they take eight minutes, a grant holds for fifteen. */
const groupBytesMax = 64 << 20;

export class GroupedGrants<Granted> {
  readonly #groups: readonly (readonly MovedBlob[])[];
  readonly #ask: (group: readonly MovedBlob[]) => Promise<readonly Granted[]>;
  readonly #answers = new Map<number, Promise<readonly Granted[]>>();

  /** `ask` gives one grant for each blob, in their order. A failure is kept: whoever tries again begins anew. */
  constructor(blobs: readonly MovedBlob[], ask: (group: readonly MovedBlob[]) => Promise<readonly Granted[]>) {
    this.#groups = groupsOf(blobs);
    this.#ask = ask;
  }

  /** Asks with the first blob of a group for all of it. */
  async of(index: number): Promise<Granted> {
    let first = 0;
    let number = 0;
    while (index >= first + (this.#groups[number] as readonly MovedBlob[]).length)
      first += (this.#groups[number++] as readonly MovedBlob[]).length;
    let answer = this.#answers.get(number);
    if (answer === undefined) {
      answer = this.#ask(this.#groups[number] as readonly MovedBlob[]);
      this.#answers.set(number, answer);
    }
    return (await answer)[index - first] as Granted;
  }
}

/** Neighbours together; a blob that is larger than a group is one of its own. */
export function groupsOf(blobs: readonly MovedBlob[]): MovedBlob[][] {
  const groups: MovedBlob[][] = [];
  let room = 0;
  for (const blob of blobs) {
    const group = groups.at(-1);
    if (group !== undefined && group.length < grantsAtOnceMax && blob.bytes <= room) group.push(blob);
    else {
      groups.push([blob]);
      room = groupBytesMax;
    }
    room -= blob.bytes;
  }
  return groups;
}
