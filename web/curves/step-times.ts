// When the session was at which step, as this page saw it: puts events that know only a time on the step axis.

import { useCallback, useEffect, useRef } from "react";
import { useLiveParts } from "../live/hooks.ts";

interface Seen {
  readonly wallMs: number;
  readonly step: number;
}

const kept = 5_000;

export function useStepTimes(session: string): (wallMs: number) => number | undefined {
  const { store } = useLiveParts();
  const seen = useRef<Seen[]>([]);
  useEffect(() => {
    seen.current = [];
    return store.subscribe(() => {
      const view = store.state.sessions.get(session);
      const last = seen.current.at(-1);
      if (!view || last?.step === view.step) return;
      seen.current.push({ wallMs: Date.now(), step: view.step });
      if (seen.current.length > kept) seen.current.splice(0, kept / 2);
    });
  }, [session, store]);
  return useCallback((wallMs: number) => {
    const first = seen.current[0];
    if (!first || wallMs < first.wallMs) return undefined;
    return seen.current.findLast((one) => one.wallMs <= wallMs)?.step;
  }, []);
}
