// What nobody will use gives its memory back: results of a life that has ended, messages that were not stored.

import type { ProcessEvent } from "../../vnode/effects.ts";
import type { Asker } from "./receiver.ts";
import type { Retention, StoredTensor } from "./retention.ts";

export function discard(event: ProcessEvent<StoredTensor, Asker>, retention: Pick<Retention, "release">): void {
  const release = (sealed: ReadonlyMap<string, { readonly payload: StoredTensor }>) => {
    for (const { payload } of sealed.values()) retention.release(payload);
  };
  switch (event.kind) {
    case "arrived":
      event.payload?.release();
      break;
    case "forwardDone":
      release(event.outputs);
      break;
    case "weightsShared":
      release(event.weights);
      break;
    case "partsDone":
      release(event.parts);
      break;
    case "sumDone":
      retention.release(event.sum.payload);
      break;
    case "backwardDone":
    case "tieGradientsDone":
      release(event.gradients);
      break;
  }
}
