// A progress bar with rate and time left: redrawn in place on a terminal, a line now and then without one.

import { duration } from "../../core/words/duration.ts";
import type { Output } from "./output.ts";

/** Without a terminal a line every so often is enough to see that work goes on. */
const plainIntervalMs = 5_000;
/** What stays the same is said again after this long: whoever reads a log sees that somebody still watches. */
const plainRepeatMs = 60_000;
const drawIntervalMs = 80;

export class Progress {
  readonly #out: Output;
  readonly #title: string;
  readonly #unit: string;
  readonly #picture: (columns: number) => readonly string[];
  readonly #startedMs = performance.now();
  #complete = false;
  #lastMs = Number.NEGATIVE_INFINITY;
  #startedAt: number | undefined;
  #told = { line: "", atMs: 0 };

  /** With a unit ("MB", "VNodes") the bar shows it and its rate; `picture` is drawn above it on a terminal. */
  constructor(out: Output, title: string, unit = "", picture: (columns: number) => readonly string[] = () => []) {
    this.#out = out;
    this.#title = title;
    this.#unit = unit;
    this.#picture = picture;
  }

  update(done: number, total: number, detail: string): void {
    this.#startedAt ??= done;
    const now = performance.now();
    const live = process.stderr.isTTY === true;
    const complete = total > 0 && done >= total;
    if (complete && this.#complete) return;
    this.#complete = complete;
    if (now - this.#lastMs < (live ? drawIntervalMs : plainIntervalMs) && !complete) return;
    this.#lastMs = now;
    const share = total > 0 ? Math.min(1, done / total) : 0;
    const count = total > 0 ? `${shown(done)}/${shown(total)}` : shown(done);
    const told = [this.#unit ? `${count} ${this.#unit}` : count, this.#rate(done), detail, this.#left(done, total)];
    const text = told.filter(Boolean).join("  ");
    const line = `${this.#title} ${total > 0 ? `${bar(share, 24, this.#out.unicode)} ` : ""}${text}`;
    if (live) this.#out.status([...this.#picture(process.stderr.columns ?? 80), line].join("\n"));
    else this.#tell(`${this.#title} ${text}`, now);
  }

  #tell(line: string, now: number): void {
    if (line === this.#told.line && now - this.#told.atMs < plainRepeatMs) return;
    this.#told = { line, atMs: now };
    this.#out.note(line);
  }

  #rate(done: number): string {
    const moved = done - (this.#startedAt ?? 0);
    const seconds = (performance.now() - this.#startedMs) / 1000;
    return this.#unit && moved > 0 ? `${shown(moved / seconds)} ${this.#unit}/s` : "";
  }

  #left(done: number, total: number): string {
    const moved = done - (this.#startedAt ?? 0);
    if (moved <= 0 || done >= total) return "";
    const seconds = ((performance.now() - this.#startedMs) / 1000 / moved) * (total - done);
    return `${duration(seconds)} left`;
  }
}

function shown(value: number): string {
  return Number.isInteger(value) || value >= 100 ? String(Math.round(value)) : value.toFixed(1);
}

/** Progress in bytes, in a unit that suits the size. */
export class ByteProgress {
  readonly #out: Output;
  readonly #title: string;
  #progress: Progress | undefined;
  #size = 2 ** 20;

  constructor(out: Output, title: string) {
    this.#out = out;
    this.#title = title;
  }

  /** `total` undefined: not known before the end. */
  update(done: number, total: number | undefined, detail: string): void {
    if (!this.#progress) {
      const small = total !== undefined && total < 10e6;
      this.#size = small ? 2 ** 10 : 2 ** 20;
      this.#progress = new Progress(this.#out, this.#title, small ? "KiB" : "MiB");
    }
    const units = (count: number) => Math.ceil(count / this.#size);
    this.#progress.update(units(done), total === undefined ? 0 : units(total), detail);
  }
}

export function bar(share: number, width: number, unicode: boolean): string {
  const full = Math.round(share * width);
  return unicode ? "█".repeat(full) + "░".repeat(width - full) : `[${"#".repeat(full)}${".".repeat(width - full)}]`;
}

export function bytes(count: number | bigint): string {
  let value = Number(count);
  for (const unit of ["B", "KiB", "MiB", "GiB", "TiB"]) {
    if (value < 1000 || unit === "TiB")
      return `${unit === "B" || value >= 100 ? Math.round(value) : value.toFixed(1)} ${unit}`;
    value /= 1024;
  }
  return "";
}
