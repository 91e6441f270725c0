// What is not part of the stream is asked for now and then, while somebody looks and the orchestrator is there.

import { useEffect, useRef, useState } from "react";
import { isMissing, sentence } from "../api.ts";
import { useLive } from "./hooks.ts";

const askEveryMs = 3_000;

export interface Asked<T> {
  /** Undefined until it is known; what was known stays while the orchestrator is away. */
  readonly value: T | undefined;
  /** Why it is not known: the last answer was a refusal. Empty otherwise. */
  readonly refusal: string;
  /** Asks at once, after something was changed. */
  readonly again: () => void;
}

/** `name` says what is asked: another name, another question. Nothing more is asked of an orchestrator that does not know the call. */
export function useAsked<T>(name: string, ask: () => Promise<T | undefined>, everyMs = askEveryMs): Asked<T> {
  const isLive = useLive((state) => state.connection.state === "live");
  const [found, setFound] = useState<{ readonly name: string; readonly value: T }>();
  const [refusal, setRefusal] = useState("");
  const [asks, setAsks] = useState(0);
  const question = useRef(ask);
  question.current = ask;
  // biome-ignore lint/correctness/useExhaustiveDependencies: `asks` grows when it is to be asked at once
  useEffect(() => {
    if (!isLive) return;
    let timer: ReturnType<typeof setTimeout> | undefined;
    let wanted = true;
    const again = async () => {
      try {
        const value = await question.current();
        if (!wanted) return;
        setRefusal("");
        if (value !== undefined) setFound({ name, value });
      } catch (thrown) {
        if (!wanted) return;
        setRefusal(sentence(thrown));
        if (isMissing(thrown)) return;
      }
      timer = setTimeout(again, everyMs);
    };
    void again();
    return () => {
      wanted = false;
      clearTimeout(timer);
    };
  }, [isLive, name, asks, everyMs]);
  return {
    value: found?.name === name ? found.value : undefined,
    refusal,
    again: () => setAsks((count) => count + 1),
  };
}
