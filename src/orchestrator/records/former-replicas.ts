// Stores of builds in which a replica of a served model posed as a training session: those are ended when an orchestrator
// starts, and their models are stopped, to be served again. Everything trained or imported stays.

import { listItems } from "../../store/records/update.ts";
import type { Mirror } from "./mirror.ts";
import type { ModelRecord, SessionRecord } from "./sessions.ts";
import { key, prefix } from "./store-keys.ts";

type FormerSession = SessionRecord & { readonly serving?: object };
type FormerModel = Omit<ModelRecord, "replicas"> & { readonly sessions?: unknown };

export async function endFormerReplicas(mirror: Mirror): Promise<void> {
  for (const { id, serving } of mirror.under(prefix.sessions) as FormerSession[])
    if (serving)
      await mirror.update(key.session(id), (current) =>
        current && current.status !== "deleted" ? { ...current, status: "deleted" as const, reason: "" } : undefined,
      );
  for await (const { record } of listItems<ModelRecord>(mirror.store, prefix.models))
    if (record.replicas === undefined)
      await mirror.update(key.model(record.name), (current) => {
        if (current === undefined || current.replicas !== undefined) return undefined;
        const { sessions: _, ...rest }: FormerModel = current;
        return { ...rest, replicas: [] };
      });
}
