// The parts of one orchestrator as its API handlers see them.

import type { Context } from "./context.ts";
import type { Assignments } from "./fleet/assignments.ts";
import type { Capacity } from "./fleet/capacity.ts";
import type { Presence } from "./fleet/presence.ts";
import type { Registry } from "./fleet/registry.ts";
import type { Rooms } from "./fleet/rooms.ts";
import type { Compiled } from "./sessions/compiled.ts";
import type { Controller } from "./sessions/controller.ts";
import type { Garbage } from "./sessions/garbage.ts";
import type { Leases } from "./sessions/leases.ts";
import type { Metrics } from "./views/metrics.ts";
import type { Utilisation } from "./views/utilisation.ts";
import type { Views } from "./views/views.ts";
import type { Bell } from "./views/watching.ts";

export interface Parts {
  readonly context: Context;
  readonly presence: Presence;
  readonly leases: Leases;
  readonly registry: Registry;
  readonly capacity: Capacity;
  readonly rooms: Rooms;
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
