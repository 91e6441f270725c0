// The models that are served; none where the orchestrator does not serve any.

import { useMemo } from "react";
import type { Model } from "../../src/protocol/gen/dcnr/v1/inference_pb.ts";
import { inference } from "../api.ts";
import { useAsked } from "../live/asked.ts";

const none: readonly Model[] = [];

export interface Models {
  readonly models: readonly Model[];
  readonly again: () => void;
}

export function useModels(): Models {
  const { value, again } = useAsked("models", async () => (await inference.listModels({})).models);
  // Compared by what is shown, so that an answer like the one before renders nothing again.
  const text = (value ?? none)
    .map(({ name, status, reason, replicas }) => `${name} ${status} ${reason} ${replicas}`)
    .join("\n");
  // biome-ignore lint/correctness/useExhaustiveDependencies: the text says whether anything changed
  const models = useMemo(() => (value ?? none).filter((model) => model.status !== "stopped"), [text]);
  return { models, again };
}
