// The rules that keep replay exact, each with a name. They are always all on; the simulator switches one off at a
// time to show that its checkers notice.

export interface Rules {
  /** A name is consumed once, however often it arrives. */
  readonly storeOnce: boolean;
  /** Gradients are added in microbatch order, not in the order they are ready. */
  readonly accumulateInOrder: boolean;
  /** The update waits for the gradients of tied weights. */
  readonly awaitTies: boolean;
  /** The update waits for the evaluation of the weights that it changes. */
  readonly awaitEvaluation: boolean;
  /** What was sent is kept from the recovery line on, not just for the current step. */
  readonly retainFromLine: boolean;
  /** A missing input is asked for. */
  readonly ask: boolean;
  /** An ask for what was collected is answered with "gone". */
  readonly admitGone: boolean;
}

export const soundRules: Rules = {
  storeOnce: true,
  accumulateInOrder: true,
  awaitTies: true,
  awaitEvaluation: true,
  retainFromLine: true,
  ask: true,
  admitGone: true,
};
