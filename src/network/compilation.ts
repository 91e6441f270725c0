// What a plan is made from while it is made.

import type { VNodeId } from "../core/ids.ts";
import type { Definition } from "./definition.ts";
import type { ResolvedNode } from "./resolve.ts";

export interface Compilation {
  readonly definition: Definition;
  readonly nodes: ReadonlyMap<string, ResolvedNode>;
  readonly clusterOf: ReadonlyMap<string, VNodeId>;
  /** `node` learns itself or has something upstream that does. */
  readonly learns: ReadonlySet<string>;
  /** A cost lies downstream of `node`, or it is one. */
  readonly judged: ReadonlySet<string>;
}
