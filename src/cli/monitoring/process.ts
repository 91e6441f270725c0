// What every process of ours tells Prometheus about itself, under the names that its own client libraries use.

import { readdirSync } from "node:fs";
import { monitorEventLoopDelay } from "node:perf_hooks";
import type { Log, World } from "../../core/world.ts";
import { MetricRegistry } from "../../monitoring/registry.ts";
import { protocolMajor, protocolMinor } from "../../protocol/network.ts";
import { softwareVersion } from "../machine/software.ts";

/** Coarse: a finer one wakes an idle process a hundred times a second. */
const lagResolutionMs = 500;

export function openRegistry(role: "orchestrator" | "pnode"): MetricRegistry {
  const registry = new MetricRegistry();
  const labels = { version: softwareVersion(), protocol: `${protocolMajor}.${protocolMinor}`, role };
  registry.gauge("dcnr_build_info", "What runs here; always 1.", () => [{ labels, value: 1 }]);
  const cpuSeconds = () => {
    const { user, system } = process.cpuUsage();
    return (user + system) / 1e6;
  };
  registry.counter("process_cpu_seconds_total", "CPU time spent, user and system.", cpuSeconds);
  registry.gauge("process_resident_memory_bytes", "Resident memory.", () => process.memoryUsage.rss());
  const startSeconds = Math.round(Date.now() / 1000 - process.uptime());
  registry.gauge("process_start_time_seconds", "When the process started, since 1970.", () => startSeconds);
  if (process.platform === "linux")
    registry.gauge("process_open_fds", "Open file descriptors.", () => readdirSync("/proc/self/fd").length);
  registry.gauge("nodejs_heap_used_bytes", "JavaScript heap in use.", () => process.memoryUsage().heapUsed);
  const lag = monitorEventLoopDelay({ resolution: lagResolutionMs });
  lag.enable();
  registry.gauge("nodejs_eventloop_lag_p99_seconds", "Delay of the event loop, 99th percentile since the start.", () =>
    Math.max(0, lag.percentile(99) / 1e9 - lagResolutionMs / 1000),
  );
  return registry;
}

/** The same world, whose log lines are counted by level. */
export function countingLogs(world: World, registry: MetricRegistry): World {
  const lines = registry.count("dcnr_log_lines_total", "Log lines by level, written or not.");
  const log: Log = (level, message, fields) => {
    lines.add({ level });
    world.log(level, message, fields);
  };
  return { ...world, log };
}
