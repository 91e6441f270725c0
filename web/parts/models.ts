// The models that are served, asked for now and then; none where the orchestrator does not serve any.

import { useEffect, useState } from "react";
import type { Model } from "../../src/protocol/gen/dcnr/v1/inference_pb.ts";
import { inference, isMissing } from "../api.ts";
import { useLive } from "../live/hooks.ts";

const askEveryMs = 3_000;

export function useModels(): readonly Model[] {
  const isLive = useLive((state) => state.connection.state === "live");
  const [models, setModels] = useState<readonly Model[]>([]);
  useEffect(() => {
    if (!isLive) return;
    let timer: ReturnType<typeof setTimeout> | undefined;
    let wanted = true;
    const ask = async () => {
      try {
        const { models: found } = await inference.listModels({});
        if (wanted) setModels((before) => (same(before, found) ? before : found));
      } catch (thrown) {
        if (isMissing(thrown)) return;
      }
      if (wanted) timer = setTimeout(ask, askEveryMs);
    };
    void ask();
    return () => {
      wanted = false;
      clearTimeout(timer);
    };
  }, [isLive]);
  return models.filter((model) => model.status !== "stopped");
}

function same(before: readonly Model[], after: readonly Model[]): boolean {
  const text = (models: readonly Model[]) =>
    models.map(({ name, status, reason }) => `${name} ${status} ${reason}`).join();
  return text(before) === text(after);
}
