// OpenTelemetry spans of training steps, sent as OTLP over HTTP in JSON. All PNodes derive a step's trace id from the
// session and the step, so a step across machines is one trace without anything on the wire. Sending never holds
// training up: what does not fit the queue or does not arrive is dropped and counted.

import { messageOf } from "../core/errors.ts";
import { sha256 } from "../core/hash.ts";
import type { Cancel, World } from "../core/world.ts";

/** One piece of a VNode's work. */
export interface Work {
  readonly kind: string;
  readonly session: string;
  readonly vnode: string;
  readonly step: number;
  readonly microbatch?: number;
  /** When it began, in milliseconds since 1970. */
  readonly startWallMs: number;
  readonly durationMs: number;
  /** Why it failed, if it did. */
  readonly failure?: string;
}

export interface TracerOptions {
  /** The address of the collector's traces, for example http://collector:4318/v1/traces. */
  readonly url: string;
  /** Who speaks: service.name, service.instance.id and the like. */
  readonly resource: Readonly<Record<string, string>>;
  readonly world: World;
  /** Rejects if the collector did not take it. */
  readonly post: (url: string, body: string) => Promise<void>;
}

interface Span {
  readonly traceId: string;
  readonly spanId: string;
  readonly parentSpanId?: string;
  readonly name: string;
  readonly startMs: number;
  readonly endMs: number;
  readonly attributes: Readonly<Record<string, string | number>>;
  readonly failure?: string;
}

const flushIntervalMs = 2_000;
const spansPerRequest = 512;
const queuedMax = 8_192;
/** VNodes whose step has begun and not ended; more than any PNode hosts. */
const openMax = 10_000;

/** The trace of a step, the same on every PNode. */
export function traceIdOf(session: string, step: number): string {
  return sha256(`dcnr trace ${session} ${step}`).slice(0, 32);
}

export function stepSpanIdOf(session: string, step: number, vnode: string): string {
  return sha256(`dcnr span ${session} ${step} ${vnode}`).slice(0, 16);
}

export class Tracer {
  readonly #options: TracerOptions;
  #queue: Span[] = [];
  /** Where each VNode's step began; the update ends it. */
  readonly #begun = new Map<string, { step: number; startMs: number }>();
  #cancel: Cancel | undefined;
  #sending: Promise<void> | undefined;
  #closed = false;
  #silent = false;
  sent = 0;
  dropped = 0;

  constructor(options: TracerOptions) {
    this.#options = options;
  }

  work(work: Work): void {
    const { kind, session, vnode, step, microbatch, startWallMs, durationMs, failure } = work;
    const traceId = traceIdOf(session, step);
    const stepSpan = stepSpanIdOf(session, step, vnode);
    const attributes = { "dcnr.session": session, "dcnr.vnode": vnode, "dcnr.step": step };
    const endMs = startWallMs + durationMs;
    this.#add({
      ...{ traceId, spanId: this.#spanId(), parentSpanId: stepSpan, name: `${kind} ${vnode}` },
      ...{ startMs: startWallMs, endMs, ...(failure === undefined ? {} : { failure }) },
      attributes: microbatch === undefined ? attributes : { ...attributes, "dcnr.microbatch": microbatch },
    });
    const key = `${session}/${vnode}`;
    const begun = this.#begun.get(key);
    const startMs = begun?.step === step ? begun.startMs : startWallMs;
    if (kind !== "update") {
      if (begun?.step !== step && this.#begun.size < openMax) this.#begun.set(key, { step, startMs });
      return;
    }
    this.#begun.delete(key);
    this.#add({ traceId, spanId: stepSpan, name: `step ${vnode}`, startMs, endMs, attributes });
  }

  /** Sends what there is; resolves when the collector has it or has refused it. */
  async flush(): Promise<void> {
    this.#cancel?.();
    this.#cancel = undefined;
    while (this.#sending) await this.#sending;
    this.#sending = this.#send().finally(() => {
      this.#sending = undefined;
    });
    await this.#sending;
  }

  async close(): Promise<void> {
    this.#closed = true;
    await this.flush();
  }

  #add(span: Span): void {
    if (this.#closed || this.#queue.length >= queuedMax) {
      this.dropped += 1;
      return;
    }
    this.#queue.push(span);
    this.#cancel ??= this.#options.world.timers.after(flushIntervalMs, () => void this.flush());
  }

  async #send(): Promise<void> {
    while (this.#queue.length > 0) {
      const batch = this.#queue.splice(0, spansPerRequest);
      try {
        await this.#options.post(this.#options.url, JSON.stringify(this.#request(batch)));
        this.sent += batch.length;
        this.#silent = false;
      } catch (error) {
        this.dropped += batch.length;
        // Said once for each outage: a collector that is away must not fill the log.
        if (!this.#silent) this.#options.world.log("warn", `traces are not taken: ${messageOf(error)}`);
        this.#silent = true;
      }
    }
  }

  #request(spans: readonly Span[]) {
    const resource = { attributes: attributesOf(this.#options.resource) };
    return { resourceSpans: [{ resource, scopeSpans: [{ scope: { name: "dcnr" }, spans: spans.map(spanOf) }] }] };
  }

  #spanId(): string {
    return Array.from(this.#options.world.chance.bytes(8), (byte) => byte.toString(16).padStart(2, "0")).join("");
  }
}

function spanOf({ startMs, endMs, attributes, failure, ...span }: Span) {
  return {
    ...span,
    // Internal: neither a server nor a client of anything.
    kind: 1,
    startTimeUnixNano: nanoseconds(startMs),
    endTimeUnixNano: nanoseconds(Math.max(startMs, endMs)),
    attributes: attributesOf(attributes),
    ...(failure === undefined ? {} : { status: { code: 2, message: failure } }),
  };
}

function attributesOf(attributes: Readonly<Record<string, string | number>>) {
  return Object.entries(attributes).map(([key, value]) => ({
    key,
    value: typeof value === "number" ? { intValue: String(Math.trunc(value)) } : { stringValue: value },
  }));
}

/** As a decimal string: a double cannot hold today's nanoseconds. */
function nanoseconds(ms: number): string {
  const whole = Math.floor(ms);
  return String(BigInt(whole) * 1_000_000n + BigInt(Math.round((ms - whole) * 1e6)));
}
