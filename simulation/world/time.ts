// Virtual time: a queue of events ordered by time and then by the order in which they were scheduled.
// Between two events all promises settle, so the same schedule runs the same way every time.

export interface Scheduled {
  readonly atMs: number;
  readonly sequence: number;
  run: (() => void) | undefined;
}

export type RunEnd = "finished" | "limit" | "idle";

/** Events per turn of the real event loop; Node settles all promises between two of them. */
const eventsPerTurn = 64;

export class VirtualTime {
  #nowMs = 0;
  #sequence = 0;
  #events = 0;
  readonly #heap: Scheduled[] = [];

  get nowMs(): number {
    return this.#nowMs;
  }

  /** How many events have run. */
  get events(): number {
    return this.#events;
  }

  after(delayMs: number, run: () => void): Scheduled {
    const event = { atMs: this.#nowMs + Math.max(0, delayMs), sequence: this.#sequence++, run };
    this.#push(event);
    return event;
  }

  /** A cancelled event stays in the queue until its time and does nothing then. */
  cancel(event: Scheduled): void {
    event.run = undefined;
  }

  /**
   * Runs events until `finished` says so, none are left, or the next one lies beyond `limitMs`. What an event
   * throws ends the run: whoever schedules for a host catches the host's own errors first.
   */
  run(finished: () => boolean, limitMs: number): Promise<RunEnd> {
    return new Promise((resolve, reject) => {
      let pending = 0;
      let ended = false;
      const turn = () => {
        pending -= 1;
        if (ended) return;
        try {
          const end = this.#next(finished, limitMs);
          if (end !== undefined) {
            ended = true;
            resolve(end);
          } else if (pending === 0) refill();
        } catch (error) {
          ended = true;
          reject(error);
        }
      };
      const refill = () => {
        for (; pending < eventsPerTurn; pending++) setImmediate(turn);
      };
      refill();
    });
  }

  #next(finished: () => boolean, limitMs: number): RunEnd | undefined {
    if (finished()) return "finished";
    let event = this.#pop();
    while (event !== undefined && event.run === undefined) event = this.#pop();
    if (event === undefined) return "idle";
    if (event.atMs > limitMs) return "limit";
    this.#nowMs = event.atMs;
    this.#events += 1;
    const { run } = event;
    event.run = undefined;
    run?.();
    return undefined;
  }

  #push(event: Scheduled): void {
    const heap = this.#heap;
    let index = heap.length;
    while (index > 0) {
      const parent = (index - 1) >> 1;
      const above = heap[parent] as Scheduled;
      if (!before(event, above)) break;
      heap[index] = above;
      index = parent;
    }
    heap[index] = event;
  }

  #pop(): Scheduled | undefined {
    const heap = this.#heap;
    const top = heap[0];
    const last = heap.pop();
    if (top === undefined || last === undefined || heap.length === 0) return top;
    let index = 0;
    while (true) {
      let child = 2 * index + 1;
      if (child >= heap.length) break;
      if (child + 1 < heap.length && before(heap[child + 1] as Scheduled, heap[child] as Scheduled)) child += 1;
      const below = heap[child] as Scheduled;
      if (!before(below, last)) break;
      heap[index] = below;
      index = child;
    }
    heap[index] = last;
    return top;
  }
}

function before(a: Scheduled, b: Scheduled): boolean {
  return a.atMs < b.atMs || (a.atMs === b.atMs && a.sequence < b.sequence);
}
