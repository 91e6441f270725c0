// What a PNode tells Prometheus and, if a collector is configured, OpenTelemetry: its VNodes and their work.

import { type World, withFields } from "../../core/world.ts";
import { type Collector, collectorFrom } from "../../monitoring/collector.ts";
import { monitoringHandler } from "../../monitoring/handler.ts";
import type { MetricRegistry } from "../../monitoring/registry.ts";
import { Tracer } from "../../monitoring/traces.ts";
import type { PerformedWork } from "../../pnode/options.ts";
import type { PNode } from "../../pnode/pnode.ts";
import type { HttpHandler } from "../../protocol/network.ts";
import type { GpuReading } from "../../system/machine/gpus.ts";
import { softwareVersion } from "../machine/software.ts";
import { countingLogs, openRegistry } from "./process.ts";

/** From a small VNode's update to a large one's backward pass. */
const workBoundsSeconds = [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10];
const postTimeoutMs = 5_000;

export interface PNodeMonitoring {
  readonly world: World;
  readonly http: HttpHandler;
  onWork(work: PerformedWork): void;
  /** From now on there is something to tell. */
  watch(pnode: PNode): void;
  watchGpus(read: () => readonly SeenGpu[]): void;
  close(): Promise<void>;
}

/** `post`: how traces reach the collector; absent: from here. */
export function monitorPNode(
  world: World,
  id: string,
  name: string,
  otlp: string | undefined,
  post?: (body: string) => Promise<void>,
): PNodeMonitoring {
  const registry = openRegistry("pnode");
  const own = countingLogs({ ...world, log: withFields(world.log, { pnode: id }) }, registry);
  let pnode: PNode | undefined;
  const readings = () =>
    pnode?.readings() ?? { attached: false, retainedBytes: 0, dataWaitMs: 0, lockerBytes: 0, vnodes: [] };
  registry.gauge("dcnr_pnode_attached", "1 while an orchestrator hears it.", () => (readings().attached ? 1 : 0));
  registry.gauge("dcnr_pnode_vnodes", "VNodes it hosts.", () => readings().vnodes.length);
  registry.gauge("dcnr_pnode_retained_bytes", "Messages it keeps for neighbours, in memory.", () => {
    return readings().retainedBytes;
  });
  const dataWaitHelp = "Time that VNodes waited for samples of their dataset.";
  registry.counter("dcnr_pnode_data_wait_seconds_total", dataWaitHelp, () => readings().dataWaitMs / 1000);
  const lockerHelp = "Messages that it has stored so that others can repeat what followed from them.";
  registry.counter("dcnr_pnode_locker_bytes_total", lockerHelp, () => readings().lockerBytes);
  describeConductors(registry, () => readings().conducted ?? []);
  const each = (value: (vnode: ReturnType<typeof readings>["vnodes"][number]) => number) => () =>
    readings().vnodes.map((vnode) => ({
      labels: { session: vnode.session, vnode: vnode.vnode },
      value: value(vnode),
    }));
  registry.gauge(
    "dcnr_vnode_step",
    "The step a VNode has reached.",
    each(({ step }) => Number(step)),
  );
  registry.gauge(
    "dcnr_vnode_step_seconds",
    "Computing time of a VNode's newest step.",
    each(({ stepMs }) => stepMs / 1000),
  );
  const work = registry.histogram(
    "dcnr_vnode_work_seconds",
    "Duration of one forward, backward or update, waiting for a worker included.",
    workBoundsSeconds,
  );
  const tracer = tracerFor(own, id, name, collectorFrom(process.env, otlp), post);
  if (tracer) {
    registry.counter("dcnr_spans_sent_total", "Spans that the collector took.", () => tracer.sent);
    registry.counter("dcnr_spans_dropped_total", "Spans that were dropped.", () => tracer.dropped);
  }
  return {
    world: own,
    http: monitoringHandler({ registry, unready: () => (readings().attached ? [] : unattached(pnode)) }),
    onWork: (done) => {
      work.observe(done.durationMs / 1000, { kind: done.kind });
      tracer?.work(done);
    },
    watchGpus: (read) => gaugeGpus(registry, read),
    watch: (started) => {
      pnode = started;
    },
    close: async () => tracer?.close(),
  };
}

type SeenGpu = GpuReading & { readonly model: string };

function gaugeGpus(registry: ReturnType<typeof openRegistry>, read: () => readonly SeenGpu[]): void {
  const each = (value: (gpu: SeenGpu) => number | undefined) => () =>
    read().flatMap((gpu, index) => {
      const found = value(gpu);
      return found === undefined ? [] : [{ labels: { gpu: String(index), model: gpu.model }, value: found }];
    });
  registry.gauge(
    "dcnr_gpu_use",
    "Share of time that a GPU computes, 0 to 1.",
    each(({ use }) => use),
  );
  registry.gauge(
    "dcnr_gpu_memory_used_bytes",
    "Memory of a GPU that is used, by whomever.",
    each(({ memoryUsedBytes }) => memoryUsedBytes),
  );
  registry.gauge(
    "dcnr_gpu_temperature_celsius",
    "How hot a GPU is.",
    each(({ temperatureCelsius }) => temperatureCelsius),
  );
}

function unattached(pnode: PNode | undefined): readonly string[] {
  return pnode?.problems().slice(0, 1) ?? ["starting"];
}

function tracerFor(
  world: World,
  id: string,
  name: string,
  collector: Collector | undefined,
  post?: (body: string) => Promise<void>,
): Tracer | undefined {
  if (!collector) return undefined;
  return new Tracer({
    url: collector.url,
    resource: {
      "service.name": process.env["OTEL_SERVICE_NAME"] ?? "dcnr-pnode",
      "service.version": softwareVersion(),
      "service.instance.id": id,
      "host.name": name,
    },
    world,
    post: (url, body) => (post ? post(body) : postJson(url, body, collector.headers)),
  });
}

/** To the owner's collector. */
export async function postJson(url: string, body: string, headers: Readonly<Record<string, string>>): Promise<void> {
  const signal = AbortSignal.timeout(postTimeoutMs);
  const response = await fetch(url, {
    method: "POST",
    headers: { ...headers, "content-type": "application/json" },
    body,
    signal,
  });
  await response.arrayBuffer();
  if (!response.ok) throw new Error(`${new URL(url).host} answered ${response.status}`);
}

type Conducted = NonNullable<ReturnType<PNode["readings"]>["conducted"]>[number];

/** Where a model's head is: what caches of equal beginnings saved, and how guesses of tokens did. */
function describeConductors(registry: MetricRegistry, conducted: () => readonly Conducted[]): void {
  const count = (name: string, help: string, value: (load: Conducted["load"]) => number) =>
    registry.counter(name, help, () =>
      conducted().map(({ replica, load }) => ({
        labels: { model: replica.split("@", 1)[0] ?? replica, replica },
        value: value(load),
      })),
    );
  count(
    "dcnr_model_cached_tokens_total",
    "Tokens of prompts whose beginning was computed for another request.",
    (load) => load.sharedPositions,
  );
  const guesses = (name: string, help: string, of: "guessed" | "right") =>
    registry.counter(name, help, () =>
      conducted().flatMap(({ replica, load }) =>
        Object.entries(load.guesses).map(([kind, count]) => ({
          labels: { model: replica.split("@", 1)[0] ?? replica, replica, kind },
          value: count[of],
        })),
      ),
    );
  guesses(
    "dcnr_model_guessed_tokens_total",
    "Tokens of answers that were guessed ahead, by kind: from a schema, the text itself, or a draft.",
    "guessed",
  );
  guesses("dcnr_model_accepted_tokens_total", "Guesses that were right, by kind.", "right");
}
