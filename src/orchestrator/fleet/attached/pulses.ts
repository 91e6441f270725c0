// The streams on which PNodes say that their processes live, beside their heartbeats. A pulse comes from a thread of its
// own: it tells a machine that is too busy to send heartbeats from one that is gone.

import { fail } from "../../../core/errors.ts";
import type { PNodeId } from "../../../core/ids.ts";
import { patienceMsMax } from "../../../core/patience.ts";
import type { PulseRequest } from "../../../protocol/gen/dcnr/v1/pnode_pb.ts";
import type { Channel } from "../../../protocol/network.ts";

/** Whose process it is that pulses. */
export interface Pulsing {
  readonly pnode: PNodeId;
  readonly nonce: string;
}

export type PulseKind = "pulseBegan" | "pulse" | "pulseEnded";

export class Pulses {
  readonly #tell: (kind: PulseKind, pulsing: Pulsing) => void;
  readonly #byToken = new Map<string, Pulsing>();
  readonly #tokens = new Map<string, string>();

  constructor(tell: (kind: PulseKind, pulsing: Pulsing) => void) {
    this.#tell = tell;
  }

  expect(token: string, pulsing: Pulsing): void {
    this.#byToken.set(token, pulsing);
    this.#tokens.set(pulsing.nonce, token);
  }

  forget(nonce: string): void {
    this.#byToken.delete(this.#tokens.get(nonce) ?? "");
    this.#tokens.delete(nonce);
  }

  async serve(channel: Channel<object, PulseRequest>): Promise<void> {
    let pulsing: Pulsing | undefined;
    try {
      for await (const { token, lateMs } of channel.incoming) {
        if (pulsing === undefined) {
          pulsing = this.#byToken.get(token);
          if (pulsing === undefined) fail("not_found", "this pulse belongs to no attachment: register first");
          this.#tell("pulseBegan", pulsing);
        }
        // A thread that has not come round for that long will not.
        if (lateMs < patienceMsMax) this.#tell("pulse", pulsing);
        await channel.send({});
      }
    } finally {
      if (pulsing !== undefined) this.#tell("pulseEnded", pulsing);
    }
  }
}
