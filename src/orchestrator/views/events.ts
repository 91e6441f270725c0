// What happened, for people: a ring in memory that watchers read, written to the store in batches so that
// other orchestrators and later starts show it too. Losing a batch loses a story, never state.

import type { Cancel, LogLevel, World } from "../../core/world.ts";
import type { StateStore } from "../../store/records/state-store.ts";
import { createItem, readItem } from "../../store/records/update.ts";
import { key } from "../records/store-keys.ts";
import type { Tasks } from "../tasks.ts";
import type { Timings } from "../timings.ts";

export interface EventAbout {
  readonly session?: string;
  readonly vnode?: string;
  readonly pnode?: string;
  readonly step?: number;
  /** Of a VNode that moved: where it was. */
  readonly fromPnode?: string;
}

export interface LoggedEvent extends EventAbout {
  /** Order in which this orchestrator learned of it. */
  readonly sequence: number;
  readonly orchestrator: string;
  readonly wallMs: number;
  readonly level: LogLevel;
  readonly kind: string;
  readonly message: string;
}

interface EventBatch {
  readonly events: readonly Omit<LoggedEvent, "sequence">[];
}

const ringSize = 5_000;
const batchSizeMax = 500;
/** DynamoDB takes 400 KB in one record. */
const batchBytesMax = 200_000;
/** Others' words stand in events: longer ones would make an event that no list can carry. */
const messageLengthMax = 2_000;
const nameLengthMax = 200;
/** Older batches are removed by whoever writes new ones. */
const batchesKept = 300;

export interface EventFilter {
  readonly after?: number;
  readonly limit?: number;
  readonly session?: string;
  readonly kindPrefix?: string;
}

export class Events {
  readonly #world: World;
  readonly #store: StateStore;
  readonly #orchestrator: string;
  readonly #writer: string;
  readonly #ring: LoggedEvent[] = [];
  readonly #imported = new Set<string>();
  readonly #listeners = new Set<(event: LoggedEvent) => void>();
  #unsaved: LoggedEvent[] = [];
  #sequence = 0;
  #batches = 0;

  constructor(world: World, store: StateStore, orchestrator: string, incarnation: string) {
    this.#world = world;
    this.#store = store;
    this.#orchestrator = orchestrator;
    this.#writer = incarnation;
  }

  start(tasks: Tasks, timings: Timings): Cancel {
    tasks.run("reading earlier events", () => this.#load());
    tasks.every("saving events", timings.eventsFlushMs, () => this.flush());
    return this.#store.watch("event/", (keys) => {
      for (const one of keys) tasks.run("reading an event", () => this.#import(one));
    });
  }

  emit(level: LogLevel, kind: string, message: string, about: EventAbout = {}): void {
    const wallMs = this.#world.clock.wallMs();
    const event: LoggedEvent = {
      sequence: ++this.#sequence,
      orchestrator: this.#orchestrator,
      wallMs,
      level,
      kind,
      message: clipped(message, messageLengthMax),
      ...brief(about),
    };
    this.#world.log(level, event.message, { kind, ...brief(about) });
    this.#push(event);
    this.#unsaved.push(event);
    if (this.#unsaved.length > ringSize) this.#unsaved.splice(0, this.#unsaved.length - ringSize);
  }

  list(filter: EventFilter = {}): LoggedEvent[] {
    const { after = 0, limit = 500, session, kindPrefix } = filter;
    const matching = this.#ring.filter(
      (event) =>
        event.sequence > after &&
        (!session || event.session === session) &&
        (!kindPrefix || event.kind.startsWith(kindPrefix)),
    );
    // Without a starting point the newest are meant; with one, the next.
    return after > 0 ? matching.slice(0, limit) : matching.slice(-limit);
  }

  subscribe(listener: (event: LoggedEvent) => void): Cancel {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  async flush(): Promise<void> {
    while (this.#unsaved.length > 0) {
      const batch = batchOf(this.#unsaved);
      const first = batch[0] as LoggedEvent;
      const name = key.event(first.wallMs, `${this.#writer}-${++this.#batches}`);
      this.#imported.add(name);
      const events = batch.map(({ sequence: _, ...event }) => event);
      await createItem<EventBatch>(this.#store, name, { events }, this.#world, { timeoutMs: 2_000 });
      this.#unsaved = this.#unsaved.filter((event) => !batch.includes(event));
      if (this.#batches % 50 === 0) await this.#prune();
    }
  }

  async #load(): Promise<void> {
    const keys = await this.#keys();
    for (const one of keys.slice(-20)) await this.#import(one);
  }

  async #import(name: string): Promise<void> {
    if (this.#imported.has(name)) return;
    this.#imported.add(name);
    if (this.#imported.size > 4 * batchesKept) this.#imported.delete(this.#imported.values().next().value as string);
    const item = await readItem<EventBatch>(this.#store, name);
    for (const event of item?.record.events ?? []) this.#push({ ...event, sequence: ++this.#sequence });
  }

  async #prune(): Promise<void> {
    const keys = await this.#keys();
    for (const one of keys.slice(0, Math.max(0, keys.length - batchesKept))) {
      const item = await this.#store.get(one);
      if (item) await this.#store.delete(one, item.version);
    }
  }

  async #keys(): Promise<string[]> {
    const keys: string[] = [];
    let after: string | undefined;
    do {
      const page = await this.#store.list("event/", after === undefined ? {} : { after });
      keys.push(...page.items.map((item) => item.key));
      after = page.next;
    } while (after !== undefined);
    return keys;
  }

  #push(event: LoggedEvent): void {
    this.#ring.push(event);
    if (this.#ring.length > ringSize) this.#ring.shift();
    for (const listener of this.#listeners) listener(event);
  }
}

function clipped(text: string, lengthMax: number): string {
  return text.length <= lengthMax ? text : `${text.slice(0, lengthMax - 1)}…`;
}

function brief(about: EventAbout): EventAbout {
  const entries = Object.entries(about);
  return Object.fromEntries(
    entries.map(([name, value]) => [name, typeof value === "string" ? clipped(value, nameLengthMax) : value]),
  );
}

/** As many of the first as one record takes, and at least one. */
function batchOf(events: readonly LoggedEvent[]): readonly LoggedEvent[] {
  let bytes = 0;
  const count = events.slice(0, batchSizeMax).findIndex((event, index) => {
    bytes += Buffer.byteLength(JSON.stringify(event));
    return index > 0 && bytes > batchBytesMax;
  });
  return events.slice(0, count < 0 ? batchSizeMax : count);
}
