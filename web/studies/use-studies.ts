// Studies as the orchestrator knows them, asked for now and then: all of them in short, the chosen one whole.

import { useEffect, useState } from "react";
import type { Study } from "../../src/protocol/gen/dcnr/v1/study_pb.ts";
import { isMissing, studies } from "../api.ts";
import { useLive } from "../live/hooks.ts";

const askEveryMs = 3_000;

export function useStudies(): readonly Study[] {
  return useAsked("", async () => (await studies.listStudies({ pageSize: 20 })).studies) ?? [];
}

/** Undefined until it is known. */
export function useStudy(id: string): Study | undefined {
  return useAsked(id, async () => (id === "" ? undefined : (await studies.getStudy({ id })).study));
}

/** Asks again and again while the page is connected; nothing more of an orchestrator that knows no studies. */
function useAsked<T>(name: string, ask: () => Promise<T | undefined>): T | undefined {
  const isLive = useLive((state) => state.connection.state === "live");
  const [found, setFound] = useState<{ readonly name: string; readonly value: T } | undefined>();
  // biome-ignore lint/correctness/useExhaustiveDependencies: what is asked changes with its name alone.
  useEffect(() => {
    if (!isLive) return;
    let timer: ReturnType<typeof setTimeout> | undefined;
    let wanted = true;
    const again = async () => {
      try {
        const value = await ask();
        if (wanted && value !== undefined) setFound({ name, value });
      } catch (thrown) {
        if (isMissing(thrown)) return;
      }
      if (wanted) timer = setTimeout(again, askEveryMs);
    };
    void again();
    return () => {
      wanted = false;
      clearTimeout(timer);
    };
  }, [isLive, name]);
  return found?.name === name ? found.value : undefined;
}
