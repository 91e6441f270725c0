// One signal of several, for as long as some work lasts. The platform holds what its own `AbortSignal.any` gives while anybody
// listens to it, so that work which never ends (of a machine that crashed in a simulated world) would keep all it knows; this one
// is held by its sources alone, which forget it when the work is over.

/** `work` hears of whichever signal comes first. */
export async function untilEither<T>(
  signals: readonly AbortSignal[],
  work: (signal: AbortSignal) => Promise<T>,
): Promise<T> {
  const either = new AbortController();
  const abort = () => either.abort(signals.find(({ aborted }) => aborted)?.reason);
  if (signals.some(({ aborted }) => aborted)) abort();
  for (const signal of signals) signal.addEventListener("abort", abort);
  try {
    return await work(either.signal);
  } finally {
    for (const signal of signals) signal.removeEventListener("abort", abort);
  }
}
