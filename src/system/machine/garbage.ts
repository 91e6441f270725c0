// Gives memory back that a process has no use for any more. The garbage collector weighs what came over the network by its handles, so that a hundred
// megabytes of pieces lie there while a model is fetched, in a heap that stays as large as it once was.

import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";

type Collect = (how: { readonly type: "major"; readonly flavor: "last-resort" }) => void;

let collect: Collect | undefined;

function collector(): Collect {
  if (collect === undefined) {
    setFlagsFromString("--expose-gc");
    collect = runInNewContext("gc") as Collect;
  }
  return collect;
}

/** Everything, and the heap becomes as small as it can be; what runs next is slower for a moment. */
export function shrinkHeap(): void {
  collector()({ type: "major", flavor: "last-resort" });
}
