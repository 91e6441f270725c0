// Keeps the page's knowledge fresh: one stream, opened again for ever, and what was missed meanwhile is asked for.

import { fleet, sentence, sessions } from "../api.ts";
import type { SeriesName } from "./series.ts";
import type { Store } from "./store.ts";
import { eventView, vnodeView } from "./views.ts";

const framesPerSecond = 4;
/** The orchestrator speaks at least every second; this much silence is a dead connection. */
const silentMs = 6_000;
const retryMs = [300, 600, 1_200, 2_500, 5_000];
/** A page nobody sees gives its connection back: browsers allow six per server. */
const restAfterMs = 60_000;
const eventsAsked = 1_000;
const metricPagesMax = 20;
/** Norms are told by every VNode: they are asked for when somebody looks at them. */
const curveNames: readonly SeriesName[] = ["loss", "validation_loss", "validation_accuracy"];
const normNames: readonly SeriesName[] = ["gradient_norm"];

export class Follower {
  readonly #store: Store;
  /** How far each session's past is known; what came with the stream since is no past. */
  readonly #loadedTo = new Map<string, number>();
  readonly #withNorms = new Set<string>();
  #selected = "";
  #wake: () => void = () => {};
  #abort = new AbortController();
  #restTimer: ReturnType<typeof setTimeout> | undefined;

  constructor(store: Store) {
    this.#store = store;
  }

  start(): void {
    addEventListener("online", () => this.retry());
    document.addEventListener("visibilitychange", () => this.#seen());
    void this.#run();
  }

  /** Tries at once instead of after the pause. */
  retry(): void {
    this.#wake();
  }

  /** Loads a session's past; its present comes with the stream. */
  select(session: string): void {
    if (this.#selected === session) return;
    this.#selected = session;
    void this.#loadSession(session).catch(() => {});
  }

  /** Curves of sessions beside the selected one, to compare with. */
  loadCurves(session: string): void {
    void this.#loadMetrics(session, curveNames).catch(() => {});
  }

  loadNorms(session: string): void {
    if (this.#withNorms.has(session)) return;
    this.#withNorms.add(session);
    void this.#loadMetrics(session, normNames, 0).catch(() => this.#withNorms.delete(session));
  }

  async #run(): Promise<void> {
    for (let attempt = 0; ; attempt += 1) {
      let reason = "the orchestrator ended the stream";
      const began = this.#store.state.known;
      try {
        await this.#watch(() => {
          attempt = 0;
        });
      } catch (error) {
        reason = this.#abort.signal.reason === "silent" ? `no word for ${silentMs / 1000} s` : sentence(error);
      }
      if (document.hidden && this.#abort.signal.reason === "rest") {
        this.#store.connect({ state: "resting" });
        await this.#woken();
        continue;
      }
      const pauseMs = retryMs[Math.min(attempt, retryMs.length - 1)] as number;
      const nowMs = Date.now();
      const { connection } = this.#store.state;
      const sinceMs = connection.state === "away" ? connection.sinceMs : nowMs;
      if (began || attempt > 0) this.#store.connect({ state: "away", sinceMs, retryAtMs: nowMs + pauseMs, reason });
      await this.#woken(pauseMs);
    }
  }

  async #watch(onFrame: () => void): Promise<void> {
    const abort = new AbortController();
    this.#abort = abort;
    const giveUp = () => abort.abort("silent");
    let watchdog = setTimeout(giveUp, silentMs);
    let first = true;
    try {
      for await (const frame of fleet.watchFleet({ framesPerSecond }, { signal: abort.signal })) {
        clearTimeout(watchdog);
        watchdog = setTimeout(giveUp, silentMs);
        this.#store.receive(frame);
        onFrame();
        if (first) void this.#catchUp().catch(() => {});
        first = false;
      }
    } finally {
      clearTimeout(watchdog);
    }
  }

  async #catchUp(): Promise<void> {
    const { events } = await fleet.listEvents({ pageSize: eventsAsked });
    this.#store.addEvents(events.map(eventView));
    if (this.#selected) await this.#loadSession(this.#selected);
  }

  async #loadSession(session: string): Promise<void> {
    await this.#loadMetrics(session, curveNames);
    const { vnodes } = await fleet.listVNodes({ session, pageSize: 1_000 });
    this.#store.addVNodes(vnodes.map(vnodeView));
  }

  async #loadMetrics(session: string, names: readonly SeriesName[], from?: number): Promise<void> {
    // A few steps again: the newest may have been reported by some VNodes only.
    const fromStep = BigInt(from ?? Math.max(0, (this.#loadedTo.get(session) ?? 0) - 50));
    let pageToken = "";
    for (let pages = 0; pages < metricPagesMax; pages += 1) {
      const page = await sessions.listMetrics({ session, names: [...names], fromStep, pageToken });
      this.#store.addMetrics(session, page.metrics);
      pageToken = page.nextPageToken;
      if (!pageToken) break;
    }
    if (names === curveNames) this.#loadedTo.set(session, this.#store.seriesOf(session).lastStep);
  }

  #seen(): void {
    clearTimeout(this.#restTimer);
    if (document.hidden) this.#restTimer = setTimeout(() => this.#abort.abort("rest"), restAfterMs);
    else this.retry();
  }

  #woken(timeoutMs?: number): Promise<void> {
    return new Promise((resolve) => {
      const timer = timeoutMs === undefined ? undefined : setTimeout(resolve, timeoutMs);
      this.#wake = () => {
        clearTimeout(timer);
        resolve();
      };
    });
  }
}
