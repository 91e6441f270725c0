// What all VNodes of a PNode share: its connections, its bounds, and whom they tell.

import type { SessionId } from "../../core/ids.ts";
import type { Tasks } from "../../core/tasks.ts";
import type { World } from "../../core/world.ts";
import type { OpenProcess } from "../../vnode/process.ts";
import type { Assignment } from "../assignment.ts";
import type { BlobClient } from "../blob-client.ts";
import type { Bounds, PerformedWork, Timings } from "../options.ts";
import type { Orchestrators } from "../orchestrators.ts";
import type { Reports } from "../reports.ts";
import type { SessionContext } from "../session-context.ts";
import type { Exchange } from "./exchange.ts";
import type { Life } from "./life.ts";
import type { Retention } from "./retention.ts";

export interface HostShared {
  readonly pnode: string;
  readonly world: World;
  readonly timings: Timings;
  readonly bounds: Bounds;
  readonly tasks: Tasks;
  readonly orchestrators: Orchestrators;
  readonly blobs: BlobClient;
  readonly exchange: Exchange;
  readonly retention: Retention;
  readonly reports: Reports;
  readonly openProcess: OpenProcess;
  readonly session: (session: SessionId) => Promise<SessionContext>;
  readonly onWork: ((work: PerformedWork) => void) | undefined;
  /** Somebody else owns the VNode: the host has stopped by itself. */
  readonly onFenced: (assignment: Assignment) => void;
  /** Hears of lines that came with an answer. */
  readonly onLine: (session: SessionId, line: number, turn: number) => void;
  /** New for each life of any VNode: one that ends may still hold its graphs while the next begins. */
  readonly lifeNumber: () => number;
  /** A VNode that was loaded ahead of its assignment, if this one was. */
  readonly takePrepared: (assignment: Assignment) => Promise<Life | undefined> | undefined;
  /** Sends a heartbeat and waits a while until it is acknowledged. */
  readonly flush: () => Promise<void>;
}
