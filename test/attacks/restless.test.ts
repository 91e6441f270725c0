// Whoever may join may say on its stream where it is and how fast, and what it saw: each costs the store a write, a look at the whole fleet, a call back
// or an event. However often it says so, it is heard about once a second.

import assert from "node:assert/strict";
import { after, before, describe, it } from "node:test";
import { sleep } from "../../src/core/world.ts";
import type { AttachRequest } from "../../src/protocol/gen/dcnr/v1/pnode_pb.ts";
import { newIdentity } from "../../src/system/keys.ts";
import { Lab } from "./lab.ts";

let lab: Lab;
before(async () => {
  lab = await Lab.open({ pnodes: 1 });
});
after(() => lab.close());

describe("a machine that never rests", () => {
  const flood = 600;
  const numerics = [{ engine: "reference", class: "reference" }];
  const kinds: Readonly<Record<string, (index: number) => AttachRequest["event"]>> = {
    "where it is": (index) => ({ case: "moved", value: { routes: [`127.0.0.1:${10_000 + index}`] } as never }),
    "how fast it is": (index) => ({ case: "measurement", value: { gflops: 1 + index, numerics } as never }),
  };
  for (const [what, event] of Object.entries(kinds))
    it(`is not written down each time that it says ${what}`, async () => {
      const mallory = newIdentity();
      const { channel } = await lab.join(mallory);
      const { mirror } = lab.orchestrator.parts.context;
      let writes = 0;
      mirror.on("pnode", (now) => {
        if ((now?.id as string) === mallory.id) writes += 1;
      });
      const { clock, timers } = lab.world;
      const beganMs = clock.monotonicMs();
      for (let index = 0; index < flood; index++) channel.send({ event: event(index) as never }).catch(() => {});
      await lab.until("it is heard", () => writes >= 10);
      await sleep(timers, 3_000);
      const seconds = (clock.monotonicMs() - beganMs) / 1_000;
      // What becomes of calling it back is written too.
      assert.ok(writes <= 2 * (22 + seconds), `${writes} writes for ${flood} words within ${seconds} s`);
      channel.close();
    });
});
