// How this machine's GPUs are, looked at every few seconds: heartbeats and metrics tell what was seen last. A confined process sees what
// the kernel's files say (AMD, Intel); NVIDIA's numbers come from a program, which it may not start.

import { sleep, type World } from "../../core/world.ts";
import { type GpuReading, readGpus } from "../../system/machine/gpus.ts";
import { thisMachine } from "../../system/machine/hardware.ts";

const everyMs = 10_000;

export interface GpuReadings {
  readonly now: readonly GpuReading[];
  stop(): void;
}

export function watchGpus(count: number, { timers }: Pick<World, "timers">): GpuReadings {
  const stopped = new AbortController();
  let now: readonly GpuReading[] = [];
  const watch = async () => {
    while (!stopped.signal.aborted) {
      now = (await readGpus(thisMachine)).slice(0, count);
      await sleep(timers, everyMs, stopped.signal);
    }
  };
  if (count > 0) void watch().catch(() => {});
  return {
    get now() {
      return now;
    },
    stop: () => stopped.abort(),
  };
}
