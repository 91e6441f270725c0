// A state store whose calls are counted and timed for /metrics.

import { hasCode } from "../../core/errors.ts";
import type { Clock } from "../../core/world.ts";
import type { MetricRegistry } from "../../monitoring/registry.ts";
import type { StateStore } from "../../store/records/state-store.ts";

/** From SQLite on a local disk to a database across an ocean. */
const boundsSeconds = [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5];

export function measuredStore(store: StateStore, registry: MetricRegistry, clock: Clock): StateStore {
  const seconds = registry.histogram(
    "dcnr_store_operation_seconds",
    "Duration of calls to the state store.",
    boundsSeconds,
  );
  const failures = registry.count("dcnr_store_failures_total", "Calls that the state store did not answer.");
  const conflicts = registry.count("dcnr_store_conflicts_total", "Conditional writes that found another version.");
  const measured = async <T>(operation: string, call: () => Promise<T>): Promise<T> => {
    const startedMs = clock.monotonicMs();
    try {
      return await call();
    } catch (error) {
      failures.add({ operation, reason: hasCode(error, "unavailable") ? "unavailable" : "other" });
      throw error;
    } finally {
      seconds.observe((clock.monotonicMs() - startedMs) / 1000, { operation });
    }
  };
  return {
    get: (key) => measured("get", () => store.get(key)),
    put: async (key, value, expected) => {
      const version = await measured("put", () => store.put(key, value, expected));
      if (version === undefined) conflicts.add({ operation: "put" });
      return version;
    },
    delete: async (key, expected) => {
      const deleted = await measured("delete", () => store.delete(key, expected));
      if (!deleted) conflicts.add({ operation: "delete" });
      return deleted;
    },
    list: (prefix, options) => measured("list", () => store.list(prefix, options)),
    watch: (prefix, onHint) => store.watch(prefix, onHint),
    close: () => store.close(),
  };
}
