// The version of the bits: builds of one version compute the same weights from the same session on the same numerics
// class. It stands in every session's identity; PNodes register theirs, placement requires it, PNodes enforce it.

/**
 * Bump it with any change that alters a step root: graphs of a plan, fusion, kernels, order of sums, random keys, order
 * of samples, schedules, the hash of a state. `simulation/golden` fails until it is bumped and `npm run golden` has
 * renewed the roots. Anything that only changes when or where a value appears leaves it alone.
 */
export const bits = 2;

/**
 * The version of the bits of served answers: builds of one version choose the same tokens from the same weights on the same numerics class, so that one
 * may go on where the other died, and repeat what it said. It stands in every replica's identity; PNodes register theirs, placement requires it,
 * PNodes enforce it. Bump it with any change of units and their graphs on any engine, of attention, of weights in few bits, or of how tokens are
 * chosen; `simulation/golden/answers.test.ts` fails until it is bumped and `npm run golden` has renewed what is kept. Versions up to 2 were
 * those of training.
 */
export const answerBits = 3;
