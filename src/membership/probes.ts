// Probes under way. One that is late is helped by other members while it still waits: a machine that stood still for some
// seconds answers after all. It has failed when neither it nor any helper had an answer.

import type { Member, MemberId, News } from "./member.ts";

export interface Probe {
  readonly number: number;
  readonly to: Member;
  /** What it carries. */
  readonly news: readonly News[];
  readonly sentMs: number;
  /** How many were asked to try; undefined before that. */
  helpers: number | undefined;
  /** Its own call has failed, and those of the helpers. */
  direct: "open" | "failed";
  tried: "open" | "failed";
  /** The process stood still meanwhile: that nobody answered says nothing. */
  excused: boolean;
}

export class Probes {
  readonly #open = new Map<number, Probe>();
  readonly #targets = new Set<MemberId>();
  #count = 0;

  begin(to: Member, news: readonly News[], nowMs: number): number {
    const number = ++this.#count;
    const probe: Probe = {
      number,
      to,
      news,
      sentMs: nowMs,
      helpers: undefined,
      direct: "open",
      tried: "open",
      excused: false,
    };
    this.#open.set(number, probe);
    this.#targets.add(to.id);
    return number;
  }

  get(number: number): Probe | undefined {
    return this.#open.get(number);
  }

  isProbing(id: MemberId): boolean {
    return this.#targets.has(id);
  }

  end(number: number): Probe | undefined {
    const probe = this.#open.get(number);
    this.#open.delete(number);
    if (probe !== undefined) this.#targets.delete(probe.to.id);
    return probe;
  }

  /** Those for whom nobody was asked yet, sent before a time. */
  late(beforeMs: number): Probe[] {
    const late: Probe[] = [];
    for (const probe of this.#open.values())
      if (probe.helpers === undefined && probe.sentMs <= beforeMs) late.push(probe);
    return late;
  }

  excuse(): void {
    for (const probe of this.#open.values()) probe.excused = true;
  }
}

export function hasFailed({ direct, tried }: Probe): boolean {
  return direct === "failed" && tried === "failed";
}
