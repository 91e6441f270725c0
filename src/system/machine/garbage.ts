// Gives memory back that a process has no use for any more. The garbage collector weighs what came over the network by its handles, so that a hundred
// megabytes of pieces lie there while a model is fetched, in a heap that stays as large as it once was.

import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";

type Collect = (how: { readonly type: "minor" | "major"; readonly flavor?: "last-resort" }) => void;

let collect: Collect | undefined;

function collector(): Collect {
  if (collect === undefined) {
    setFlagsFromString("--expose-gc");
    collect = runInNewContext("gc") as Collect;
  }
  return collect;
}

/** What was made a moment ago and is needed no more; takes a millisecond or two. */
export function collectYoung(): void {
  collector()({ type: "minor" });
}

/** Everything; takes some ten milliseconds. */
export function collectAll(): void {
  collector()({ type: "major" });
}

/** Everything, and the heap becomes as small as it can be; what runs next is slower for a moment. */
export function shrinkHeap(): void {
  collector()({ type: "major", flavor: "last-resort" });
}
