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

interface Place {
  readonly group: readonly MovedBlob[];
  readonly at: number;
}

export class GroupedGrants<Granted> {
  /** Of each blob: its group, and where it stands there. */
  readonly #places: readonly Place[];
  readonly #ask: (group: readonly MovedBlob[]) => Promise<readonly Granted[]>;
  readonly #answers = new Map<readonly MovedBlob[], Promise<readonly Granted[]>>();

  /** `ask` gives one grant for each blob, in their order. A failure is kept: whoever tries again begins anew. */
  constructor(blobs: readonly MovedBlob[], ask: (group: readonly MovedBlob[]) => Promise<readonly Granted[]>) {
    this.#places = groupsOf(blobs).flatMap((group) => group.map((_, at) => ({ group, at })));
    this.#ask = ask;
  }

  /** Asks with the first blob of a group for all of it. */
  async of(index: number): Promise<Granted> {
    const { group, at } = this.#places[index] as Place;
    const answer = this.#answers.get(group) ?? this.#ask(group);
    this.#answers.set(group, answer);
    return (await answer)[at] as Granted;
  }
}

/** Neighbours together; a blob that is larger than a group is one of its own. */
export function groupsOf<Blob extends Pick<MovedBlob, "bytes">>(blobs: readonly Blob[]): Blob[][] {
  const groups: Blob[][] = [];
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
