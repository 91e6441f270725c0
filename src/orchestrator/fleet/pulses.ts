// The streams on which PNodes say that their processes live, beside their heartbeats. A pulse comes from a thread of its
// own: it tells a machine that is too busy to send heartbeats from one that is gone.

import { fail } from "../../core/errors.ts";
import { patienceMsMax } from "../../core/patience.ts";
import type { PulseRequest } from "../../protocol/gen/dcnr/v1/pnode_pb.ts";
import type { Channel } from "../../protocol/network.ts";
import type { Attachment } from "./attachment.ts";

export interface PulseHooks {
  onPulse(attachment: Attachment): void;
  /** Its last pulse stream has ended: if the process were well, another would have begun. */
  onEnd(attachment: Attachment): void;
}

export class Pulses {
  readonly #hooks: PulseHooks;
  readonly #byToken = new Map<string, Attachment>();

  constructor(hooks: PulseHooks) {
    this.#hooks = hooks;
  }

  expect(token: string, attachment: Attachment): void {
    this.#byToken.set(token, attachment);
  }

  forget(attachment: Attachment): void {
    for (const [token, known] of this.#byToken) if (known === attachment) this.#byToken.delete(token);
  }

  async serve(channel: Channel<object, PulseRequest>): Promise<void> {
    let attachment: Attachment | undefined;
    try {
      for await (const { token, lateMs } of channel.incoming) {
        if (attachment === undefined) {
          attachment = this.#byToken.get(token);
          if (attachment === undefined) fail("not_found", "this pulse belongs to no attachment: register first");
          attachment.pulses++;
        }
        // A thread that has not come round for that long will not.
        if (lateMs < patienceMsMax) this.#hooks.onPulse(attachment);
        await channel.send({});
      }
    } finally {
      if (attachment !== undefined && --attachment.pulses === 0) this.#hooks.onEnd(attachment);
    }
  }
}
