// The world's interfaces: time, timers, chance and logs. Real ones live in system/, simulated ones in
// simulation/. Nothing else may read a clock, set a timer or draw a random number.

export interface Clock {
  /** Milliseconds since 1970, for people to read. May jump; never decides anything. */
  wallMs(): number;
  /** Milliseconds since an arbitrary start; never goes back. */
  monotonicMs(): number;
}

export type Cancel = () => void;

export interface Timers {
  /** Calls back once after `delayMs`, unless cancelled. */
  after(delayMs: number, callback: () => void): Cancel;
}

export interface Chance {
  bytes(count: number): Uint8Array;
  /** Uniform in [0, 1). For jitter and names, never for anything that reaches a VNode's state. */
  uniform(): number;
}

export type LogLevel = "debug" | "info" | "warn" | "error";
export type LogFields = Record<string, string | number | boolean | undefined>;

export type Log = (level: LogLevel, message: string, fields?: LogFields) => void;

export interface World {
  readonly clock: Clock;
  readonly timers: Timers;
  readonly chance: Chance;
  readonly log: Log;
}

export function sleep(timers: Timers, delayMs: number, signal?: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    if (signal?.aborted) return resolve();
    const done = () => {
      cancel();
      signal?.removeEventListener("abort", done);
      resolve();
    };
    const cancel = timers.after(delayMs, done);
    signal?.addEventListener("abort", done, { once: true });
  });
}

/** Repeats `task` with `intervalMs` between the end of one run and the start of the next. */
export function every(timers: Timers, intervalMs: number, task: () => void | Promise<void>): Cancel {
  let stopped = false;
  let cancel: Cancel = () => {};
  const arm = () => {
    cancel = timers.after(intervalMs, async () => {
      if (stopped) return;
      await task();
      if (!stopped) arm();
    });
  };
  arm();
  return () => {
    stopped = true;
    cancel();
  };
}

export const silentLog: Log = () => {};

/** A log whose every line carries `fields`. */
export function withFields(log: Log, fields: LogFields): Log {
  return (level, message, more) => log(level, message, { ...fields, ...more });
}
