// How served models are shown.

import type { Model } from "../../protocol/gen/dcnr/v1/inference_pb.ts";
import type { Output } from "./output.ts";

export function showModels(out: Output, models: readonly Model[]): void {
  out.table(
    [
      { title: "MODEL" },
      { title: "STATUS" },
      { title: "PARAMETERS", align: "right" },
      { title: "CONTEXT", align: "right" },
      { title: "REPLICAS", align: "right" },
      { title: "SOURCE", shrink: true },
      { title: "REASON", shrink: true },
    ],
    models.map((model) => [
      model.name,
      model.status,
      model.parameters.toLocaleString("en"),
      String(model.context),
      String(model.replicas),
      model.source,
      model.reason,
    ]),
  );
}
