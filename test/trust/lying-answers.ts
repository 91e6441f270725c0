// Loaded into a PNode's process before everything else, by tests alone: from then on the head of a served model chooses other
// tokens than follow from its logits. Of the product's own code nothing is changed.

import { Chooser } from "../../src/models/choosing.ts";

const honest = Chooser.prototype.choose;

Chooser.prototype.choose = function lying(logits, ...given) {
  return honest.call(
    this,
    logits.map((logit) => -logit),
    ...given,
  );
};
