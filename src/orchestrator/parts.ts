// The parts of one orchestrator as its API handlers see them.

import type { Assignments } from "./assignments.ts";
import type { Capacity } from "./capacity.ts";
import type { Compiled } from "./compiled.ts";
import type { Context } from "./context.ts";
import type { Controller } from "./controller.ts";
import type { Garbage } from "./garbage.ts";
import type { Leases } from "./leases.ts";
import type { Metrics } from "./metrics.ts";
import type { Presence } from "./presence.ts";
import type { Registry } from "./registry.ts";
import type { Utilisation } from "./utilisation.ts";
import type { Views } from "./views.ts";
import type { Bell } from "./watching.ts";

export interface Parts {
  readonly context: Context;
  readonly presence: Presence;
  readonly leases: Leases;
  readonly registry: Registry;
  readonly capacity: Capacity;
  readonly assignments: Assignments;
  readonly compiled: Compiled;
  readonly controller: Controller;
  readonly garbage: Garbage;
  readonly metrics: Metrics;
  readonly utilisation: Utilisation;
  readonly views: Views;
  /** Rings when anything that watchers see has changed. */
  readonly bell: Bell;
}
