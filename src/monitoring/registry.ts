// Numbers for Prometheus: families of gauges, counters and histograms, rendered in its text format. Most values are
// read when somebody asks, so that an orchestrator nobody watches spends nothing on them.

import { assert } from "../core/assert.ts";

export type Labels = Readonly<Record<string, string>>;

export interface Sample {
  readonly labels?: Labels;
  readonly value: number;
}

export type Reading = number | Iterable<Sample>;

type Kind = "gauge" | "counter" | "histogram";

interface Family {
  readonly name: string;
  readonly kind: Kind;
  readonly help: string;
  readonly lines: () => Iterable<string>;
}

/** Label values come from afar: more series than this of one family would be an attack on whoever scrapes them. */
const seriesMax = 10_000;

export class MetricRegistry {
  readonly #families = new Map<string, Family>();

  gauge(name: string, help: string, read: () => Reading): void {
    this.#add({ name, kind: "gauge", help, lines: () => simpleLines(name, read()) });
  }

  /** `read` returns totals that only grow. */
  counter(name: string, help: string, read: () => Reading): void {
    assert(name.endsWith("_total"), "names of counters end in _total");
    this.#add({ name, kind: "counter", help, lines: () => simpleLines(name, read()) });
  }

  /** A counter that is told what happens. */
  count(name: string, help: string): Tally {
    const tally = new Tally();
    this.counter(name, help, () => tally.samples());
    return tally;
  }

  /** `bounds`: upper bounds of the buckets, ascending; one without bound is added. */
  histogram(name: string, help: string, bounds: readonly number[]): Histogram {
    const histogram = new Histogram(bounds);
    this.#add({ name, kind: "histogram", help, lines: () => histogram.lines(name) });
    return histogram;
  }

  render(): string {
    const lines: string[] = [];
    for (const { name, kind, help, lines: read } of this.#families.values()) {
      lines.push(`# HELP ${name} ${help.replaceAll("\\", "\\\\").replaceAll("\n", "\\n")}`, `# TYPE ${name} ${kind}`);
      let series = 0;
      for (const line of read()) {
        if (series++ >= seriesMax) break;
        lines.push(line);
      }
    }
    return `${lines.join("\n")}\n`;
  }

  #add(family: Family): void {
    assert(/^[a-z][a-z0-9_]*$/.test(family.name), "names of metrics are lower case words joined by _");
    assert(!this.#families.has(family.name), "a metric is registered once");
    this.#families.set(family.name, family);
  }
}

export class Tally {
  readonly #series = new Map<string, { readonly labels: Labels; value: number }>();

  add(labels: Labels = {}, amount = 1): void {
    const entry = take(this.#series, labels, () => ({ labels, value: 0 }));
    if (entry) entry.value += amount;
  }

  samples(): Iterable<Sample> {
    return this.#series.values();
  }
}

interface Buckets {
  readonly labels: Labels;
  readonly counts: number[];
  sum: number;
  count: number;
}

export class Histogram {
  readonly #bounds: readonly number[];
  readonly #series = new Map<string, Buckets>();

  constructor(bounds: readonly number[]) {
    this.#bounds = bounds;
  }

  observe(value: number, labels: Labels = {}): void {
    const empty = () => ({ labels, counts: this.#bounds.map(() => 0), sum: 0, count: 0 });
    const buckets = take(this.#series, labels, empty);
    if (!buckets) return;
    buckets.sum += value;
    buckets.count += 1;
    const index = this.#bounds.findIndex((bound) => value <= bound);
    if (index >= 0) buckets.counts[index] = (buckets.counts[index] as number) + 1;
  }

  *lines(name: string): Iterable<string> {
    for (const { labels, counts, sum, count } of this.#series.values()) {
      let cumulative = 0;
      for (const [index, bound] of this.#bounds.entries()) {
        cumulative += counts[index] as number;
        yield line(`${name}_bucket`, { ...labels, le: String(bound) }, cumulative);
      }
      yield line(`${name}_bucket`, { ...labels, le: "+Inf" }, count);
      yield line(`${name}_sum`, labels, sum);
      yield line(`${name}_count`, labels, count);
    }
  }
}

/** The series of these labels; none once there are too many. */
function take<T>(series: Map<string, T>, labels: Labels, make: () => T): T | undefined {
  const key = JSON.stringify(labels);
  let entry = series.get(key);
  if (entry === undefined && series.size < seriesMax) {
    entry = make();
    series.set(key, entry);
  }
  return entry;
}

function* simpleLines(name: string, reading: Reading): Iterable<string> {
  if (typeof reading === "number") yield line(name, {}, reading);
  else for (const { labels = {}, value } of reading) yield line(name, labels, value);
}

function line(name: string, labels: Labels, value: number): string {
  const pairs = Object.entries(labels).map(([label, text]) => `${label}="${escapeLabel(text)}"`);
  return `${name}${pairs.length > 0 ? `{${pairs.join(",")}}` : ""} ${number(value)}`;
}

/** A PNode may be called anything: its name must not be able to end the label or forge a line. */
function escapeLabel(text: string): string {
  return text.replaceAll("\\", "\\\\").replaceAll('"', '\\"').replaceAll("\n", "\\n").replaceAll("\r", "");
}

function number(value: number): string {
  if (value === Number.POSITIVE_INFINITY) return "+Inf";
  if (value === Number.NEGATIVE_INFINITY) return "-Inf";
  return String(value);
}
