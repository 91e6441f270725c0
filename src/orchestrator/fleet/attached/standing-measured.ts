// What a PNode says of its machine, on its way into its record: one write at a time, so that an older word never takes back what
// a newer one has told, and again if the store could not be reached, for nobody says it twice. Pure, part of standing-step.ts.

import type { Measured } from "./record-changes.ts";
import type { Decided, Standing, StandingEffect } from "./standing.ts";

/** Without the store nothing can be placed either. */
const retryMs = 1_000;

export function toldMeasured(standing: Standing, measured: Measured): Decided {
  const waiting = both(standing.measured.waiting, measured);
  const next = { ...standing, measured: { ...standing.measured, waiting } };
  return standing.measured.isWriting ? { standing: next, effects: [] } : writeWaiting(next);
}

export function measuredWritten(standing: Standing, { numerics }: Measured, changed: boolean): Decided {
  const { standing: next, effects } = writeWaiting(standing);
  // What it rounds like decides what it may host.
  const told: StandingEffect[] = changed ? [{ kind: "fleetChanged", urgent: numerics.length > 0 }] : [];
  return { standing: next, effects: [...told, ...effects] };
}

export function measuredNotWritten(standing: Standing, measured: Measured): Decided {
  const { nonce } = standing;
  const waiting = standing.measured.waiting === undefined ? measured : both(measured, standing.measured.waiting);
  const event = { kind: "retry", nonce, change: { kind: "measured", measured } } as const;
  return {
    standing: { ...standing, measured: { isWriting: false, waiting } },
    effects: [{ kind: "later", afterMs: retryMs, event }],
  };
}

/** Unless what has been told since took it along. */
export function retryMeasured(standing: Standing): Decided {
  return standing.measured.isWriting ? { standing, effects: [] } : writeWaiting(standing);
}

function writeWaiting(standing: Standing): Decided {
  const { waiting: measured } = standing.measured;
  if (measured === undefined)
    return { standing: { ...standing, measured: { isWriting: false, waiting: undefined } }, effects: [] };
  return {
    standing: { ...standing, measured: { isWriting: true, waiting: undefined } },
    effects: [{ kind: "write", nonce: standing.nonce, change: { kind: "measured", measured } }],
  };
}

/** What the later word does not say is as the earlier one said. */
function both(before: Measured | undefined, now: Measured): Measured {
  if (before === undefined) return now;
  return {
    gflops: now.gflops || before.gflops,
    bandwidthBytesPerSecond: now.bandwidthBytesPerSecond || before.bandwidthBytesPerSecond,
    latencyMs: now.latencyMs || before.latencyMs,
    memoryBytes: now.memoryBytes || before.memoryBytes,
    numerics: now.numerics.length > 0 ? now.numerics : before.numerics,
  };
}
