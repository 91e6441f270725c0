// The smallest network that generates: a table of a hundred tokens and a head that shares it.

import { compileText } from "../../network/compile.ts";

export const tinyPlan = compileText(`
name: tiny
nodes:
  - { id: table, type: embedder, config: { vocab_size: 100, dim: 8, seq_len: 32, shared_weight_alias: t } }
  - { id: loss, type: tied_lm_head_ce, config: { tie_weight_alias: t, colocate_group: head } }
edges: [{ from: table, to: loss }]
`);
