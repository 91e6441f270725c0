// What every part of one orchestrator shares.

import type { Aside } from "../core/aside.ts";
import type { OrchestratorId } from "../core/ids.ts";
import type { World } from "../core/world.ts";
import type { BlobStore } from "../store/blobs/blob-store.ts";
import type { VerifyBy } from "../trust/signing.ts";
import type { Mirror } from "./records/mirror.ts";
import type { Tasks } from "./tasks.ts";
import type { Timings } from "./timings.ts";
import type { Lottery } from "./trust/lottery.ts";
import type { Events } from "./views/events.ts";

export interface Context {
  readonly id: OrchestratorId;
  /** New at every start. */
  readonly incarnation: string;
  /** Where PNodes, clients and other orchestrators reach it. */
  readonly address: string;
  readonly software: string;
  readonly world: World;
  /** For whatever strangers wrote and takes time to read. */
  readonly aside: Aside;
  readonly mirror: Mirror;
  readonly blobs: BlobStore;
  readonly events: Events;
  readonly tasks: Tasks;
  readonly timings: Timings;
  /** Judges signatures of machines; without it no session is checked. */
  readonly verify: VerifyBy | undefined;
  /** Draws what is checked. */
  readonly lottery: Lottery;
}
