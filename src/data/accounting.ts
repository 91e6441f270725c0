// Which samples a training session used, step by step, and whether each was used exactly once an epoch. The batch of a
// step is a pure function of seed, manifest and step: this is the log that function makes.

import { type SplitRequest, sampleIndices, viewSplit } from "./order.ts";

export interface AccountRequest extends SplitRequest {
  readonly seed: number;
  readonly batch: number;
  /** Steps that were trained. */
  readonly steps: number;
}

export interface Account {
  /** Samples of the split. */
  readonly samples: number;
  /** Whole passes over the split. */
  readonly epochs: number;
  /** Samples of the pass that was under way at the end. */
  readonly rest: number;
  /** Sample indices that some epoch used twice or left out; empty when all is well. */
  readonly wrong: readonly { readonly epoch: number; readonly sample: number; readonly uses: number }[];
}

/** Mistakes listed at most; one is enough to know. */
const wrongMax = 100;

export function* samplesByStep(request: AccountRequest): Generator<{ step: number; samples: number[] }> {
  for (let step = 0; step < request.steps; step++) yield { step, samples: sampleIndices({ ...request, step }) };
}

/** Goes through the log of `samplesByStep`, or of any other record of it, and counts. */
export function account(
  request: AccountRequest,
  log: Iterable<{ readonly samples: readonly number[] }> = samplesByStep(request),
): Account {
  const view = viewSplit(request);
  const members = Array.from({ length: view.samples }, (_, place) => view.at(place));
  const wrong: Account["wrong"][number][] = [];
  let uses = new Map<number, number>();
  let drawn = 0;
  const close = (epoch: number, whole: boolean) => {
    for (const sample of members) {
      const count = uses.get(sample) ?? 0;
      if ((whole ? count !== 1 : count > 1) && wrong.length < wrongMax) wrong.push({ epoch, sample, uses: count });
    }
    uses = new Map();
  };
  for (const { samples } of log)
    for (const sample of samples) {
      uses.set(sample, (uses.get(sample) ?? 0) + 1);
      if (++drawn % view.samples === 0) close(drawn / view.samples - 1, true);
    }
  const epochs = Math.floor(drawn / view.samples);
  if (drawn % view.samples > 0) close(epochs, false);
  return { samples: view.samples, epochs, rest: drawn % view.samples, wrong };
}
