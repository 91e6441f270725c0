// What happens when, for millions of events: a binary heap of times and callbacks, in the order of their times.

export class Agenda {
  #times: number[] = [];
  #runs: (() => void)[] = [];
  nowMs = 0;
  events = 0;

  at(timeMs: number, run: () => void): void {
    const times = this.#times;
    const runs = this.#runs;
    let index = times.length;
    times.push(timeMs);
    runs.push(run);
    while (index > 0) {
      const parent = (index - 1) >> 1;
      if ((times[parent] as number) <= timeMs) break;
      times[index] = times[parent] as number;
      runs[index] = runs[parent] as () => void;
      index = parent;
    }
    times[index] = timeMs;
    runs[index] = run;
  }

  run(untilMs: number): void {
    while (this.#times.length > 0 && (this.#times[0] as number) <= untilMs) {
      this.nowMs = this.#times[0] as number;
      const run = this.#runs[0] as () => void;
      this.#removeFirst();
      this.events += 1;
      run();
    }
    this.nowMs = untilMs;
  }

  #removeFirst(): void {
    const times = this.#times;
    const runs = this.#runs;
    const time = times.pop() as number;
    const run = runs.pop() as () => void;
    const { length } = times;
    if (length === 0) return;
    let index = 0;
    for (;;) {
      let child = 2 * index + 1;
      if (child >= length) break;
      if (child + 1 < length && (times[child + 1] as number) < (times[child] as number)) child += 1;
      if ((times[child] as number) >= time) break;
      times[index] = times[child] as number;
      runs[index] = runs[child] as () => void;
      index = child;
    }
    times[index] = time;
    runs[index] = run;
  }
}
