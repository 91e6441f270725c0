// Whoever runs data jobs in job worlds: takes one after another, tells how it goes, and now and then falls silent in the middle as a
// process does that was killed. What comes of a job follows from its key, whoever works on it, and however often.

import { sleep } from "../../src/core/world.ts";
import { JobService } from "../../src/protocol/gen/dcnr/v1/job_pb.ts";
import type { Stage } from "../../test/control/stage.ts";
import { addressOf } from "../boot.ts";

export const resultOfData = (key: string) => ({ corpus: `hash of ${key}` });

const tellings = 4;
const againMs = 2_000;
const callMs = 5_000;

export function startDataWorker(stage: Stage, name: string, random: () => number): void {
  const host = stage.world.start(name);
  const network = stage.fabric.people(host);
  const somebody = () => addressOf(Array.from(stage.orchestrators.keys()).at(-1) as string);
  const tell = (id: string, token: string, progress: number, result = {}) =>
    network.call(somebody(), JobService.method.tellDataJob, { id, token, progress, result }, { timeoutMs: callMs });
  const work = async () => {
    const taken = await network.call(
      somebody(),
      JobService.method.takeDataJob,
      { worker: name },
      { timeoutMs: callMs },
    );
    if (!taken.job?.spec) return;
    const { id, spec } = taken.job;
    for (let told = 1; told < tellings; told++) {
      await sleep(host.world.timers, againMs * random());
      if (random() < 0.1) return;
      if (!(await tell(id, taken.token, told / tellings)).goesOn) return;
    }
    await tell(id, taken.token, 1, resultOfData(spec.key));
  };
  const always = async () => {
    for (;;) {
      await sleep(host.world.timers, againMs);
      // Whom it asked may be gone, or the answer lost: it asks again.
      await work().catch(() => {});
    }
  };
  void always();
}
