// Tensors that were refused, for the log: the first of each peer at once, the rest counted, since a peer that is
// wrong once is wrong a thousand times a second.

import type { World } from "../core/world.ts";

const quietMs = 10_000;
/** Peers are strangers: their names take no more memory than this. */
const peersMax = 1_000;

export class Refusals {
  readonly #world: Pick<World, "clock" | "log">;
  readonly #byPeer = new Map<string, { loggedMs: number; since: number }>();

  constructor(world: Pick<World, "clock" | "log">) {
    this.#world = world;
  }

  note(peer: string, detail: string): void {
    const nowMs = this.#world.clock.monotonicMs();
    const known = this.#byPeer.get(peer);
    if (known !== undefined && nowMs - known.loggedMs < quietMs) {
      known.since++;
      return;
    }
    if (this.#byPeer.size >= peersMax) this.#byPeer.clear();
    this.#byPeer.set(peer, { loggedMs: nowMs, since: 0 });
    const more = known !== undefined && known.since > 0 ? ` (and ${known.since} more since the last such line)` : "";
    this.#world.log("warn", `refused a tensor of PNode ${peer}: ${detail}${more}`);
  }
}
