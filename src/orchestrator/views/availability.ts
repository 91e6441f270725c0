// Observes how available machines are, and what their losses cost, into records of days. One orchestrator looks at machines at a time
// (a lease); recoveries are added by whoever saw them. While nobody looks, nothing is counted for or against anybody.

import type { Context } from "../context.ts";
import { dayOf, type MachineDay, type NetworkDay, noHours } from "../records/availability.ts";
import { isOpen, type PNodeRecord } from "../records/machines.ts";
import { key, prefix } from "../records/store-keys.ts";
import type { Leases } from "../workloads/leases.ts";
import { type Row, rowOf } from "./availability-report.ts";

const sampleMs = 30_000;
const flushMs = 5 * 60_000;
/** A machine that has been missing for longer is not coming back, and counts no more. */
const missingMsMost = 24 * 3_600_000;
const keptDays = 400;
const dayMs = 24 * 3_600_000;

type Part = "onlineMs" | "closedMs" | "lostMs" | "failures";
type NetworkPart = "recoveries" | "recoveryMs" | "steps" | "repeated";

export class Availability {
  readonly #context: Context;
  readonly #leases: Leases;
  readonly #machines = new Map<string, MachineDay>();
  readonly #days = new Map<string, NetworkDay>();
  /** What this orchestrator has saved of today and yesterday, for metrics. */
  readonly #seen = new Map<string, MachineDay>();
  /** Since when a machine has been missing, as far as this orchestrator saw. */
  readonly #missingSinceMs = new Map<string, number>();
  #sampledMs: number | undefined;
  #isObserver = false;

  constructor(context: Context, leases: Leases) {
    this.#context = context;
    this.#leases = leases;
    const { mirror } = context;
    mirror.on("pnode", (now, before) => {
      const wasThere = before?.status === "online" || before?.status === "leaving";
      if (this.#isObserver && now && wasThere && now.status === "lost") this.#add(now, "failures", 1);
    });
    mirror.on("session", (now, before) => {
      if (now && before && now.line > before.line && leases.isHeldHere(now.id))
        this.#addNetwork("steps", now.line - before.line);
    });
  }

  start(): void {
    const { tasks } = this.#context;
    tasks.every("the look at availability", sampleMs, () => this.sample());
    tasks.every("saving availability", flushMs, () => this.flush());
    tasks.every("the end of old days", dayMs / 24, () => this.#forgetOld());
  }

  async sample(): Promise<void> {
    const { mirror, world } = this.#context;
    const nowMs = world.clock.monotonicMs();
    const before = this.#sampledMs;
    this.#isObserver = await this.#leases.holdReport();
    this.#sampledMs = this.#isObserver ? nowMs : undefined;
    if (before === undefined || !this.#isObserver) return;
    // After a pause nobody knows what was in between.
    const passedMs = Math.min(nowMs - before, 2 * sampleMs);
    for (const record of mirror.under(prefix.pnodes)) this.#count(record, passedMs, nowMs);
  }

  #count(record: PNodeRecord, passedMs: number, nowMs: number): void {
    if (record.status === "left" || record.status === "quarantined") return;
    const isMissing = record.status === "lost" || Boolean(record.unreachable || record.unreached);
    if (!isMissing) this.#missingSinceMs.delete(record.id);
    else if (!this.#missingSinceMs.has(record.id)) this.#missingSinceMs.set(record.id, nowMs);
    if (isMissing && nowMs - (this.#missingSinceMs.get(record.id) ?? nowMs) > missingMsMost) return;
    this.#add(
      record,
      isMissing ? "lostMs" : isOpen(record) || record.status === "leaving" ? "onlineMs" : "closedMs",
      passedMs,
    );
  }

  #add({ id, name, owner, provider }: PNodeRecord, part: Part, amount: number): void {
    const { day, hour } = dayOf(this.#context.world.clock.wallMs());
    const own = `${day}/${id}`;
    const known = this.#machines.get(own) ?? {
      day,
      pnode: id,
      name,
      owner,
      provider,
      onlineMs: noHours(),
      closedMs: noHours(),
      lostMs: noHours(),
      failures: noHours(),
    };
    this.#machines.set(own, { ...known, [part]: added(known[part], hour, amount) });
  }

  #addNetwork(part: NetworkPart, amount: number): void {
    const { day, hour } = dayOf(this.#context.world.clock.wallMs());
    const known = this.#days.get(day) ?? noNetworkDay(day);
    this.#days.set(day, { ...known, [part]: added(known[part], hour, amount) });
  }

  /** A session goes on after a loss. */
  recovered(tookMs: number, repeatedSteps: number): void {
    const { day, hour } = dayOf(this.#context.world.clock.wallMs());
    this.#addNetwork("recoveries", 1);
    this.#addNetwork("recoveryMs", Math.max(0, tookMs));
    this.#addNetwork("repeated", Math.max(0, repeatedSteps));
    const known = this.#days.get(day) ?? noNetworkDay(day);
    const longestMs = [...known.longestMs];
    longestMs[hour] = Math.max(longestMs[hour] ?? 0, tookMs);
    this.#days.set(day, { ...known, longestMs });
  }

  async flush(): Promise<void> {
    const { mirror } = this.#context;
    for (const [own, fresh] of [...this.#machines]) {
      this.#machines.delete(own);
      this.#seen.set(own, sumOf(this.#seen.get(own), fresh));
      await mirror.update(key.machineDay(fresh.day, fresh.pnode), (current) => sumOf(current, fresh));
    }
    for (const [own, fresh] of [...this.#days]) {
      this.#days.delete(own);
      await mirror.update(key.networkDay(fresh.day), (current) => networkSum(current, fresh));
    }
  }

  /** What is known of the days from one to another, with what is not saved yet. */
  async days(from: string, to: string): Promise<{ machines: MachineDay[]; network: NetworkDay[] }> {
    const { store } = this.#context.mirror;
    const machines = new Map(this.#machines);
    const network = new Map(this.#days);
    for (let after: string | undefined = `availability/${from}`; after !== undefined; ) {
      const page = await store.list("availability/", { after });
      for (const { key: name, value } of page.items) {
        const [, day = "", id = ""] = name.split("/");
        if (day > to) return within(machines, network, from, to);
        const record: unknown = JSON.parse(value);
        if (id === "network")
          network.set(day, networkSum(record as NetworkDay, this.#days.get(day) ?? noNetworkDay(day)));
        else machines.set(`${day}/${id}`, sumOf(record as MachineDay, this.#machines.get(`${day}/${id}`)));
      }
      after = page.next;
    }
    return within(machines, network, from, to);
  }

  /** Of the last 24 hours, as far as this orchestrator has seen them; undefined while another one observes. */
  lately(): Row | undefined {
    if (!this.#isObserver) return undefined;
    const toMs = this.#context.world.clock.wallMs();
    const seen = [...this.#seen.values(), ...this.#machines.values()];
    return rowOf("all", seen, { fromMs: toMs - dayMs + dayMs / 24, toMs }, 0.99);
  }

  async #forgetOld(): Promise<void> {
    const { mirror, world } = this.#context;
    const { day: oldest } = dayOf(world.clock.wallMs() - keptDays * dayMs);
    const { items } = await mirror.store.list("availability/", { limit: 200 });
    const { day: yesterday } = dayOf(world.clock.wallMs() - dayMs);
    for (const [own, { day }] of this.#seen) if (day < yesterday) this.#seen.delete(own);
    for (const { key: name, version } of items)
      if ((name.split("/")[1] ?? "") < oldest) await mirror.store.delete(name, version);
  }
}

function within(machines: Map<string, MachineDay>, network: Map<string, NetworkDay>, from: string, to: string) {
  const isIn = ({ day }: { day: string }) => day >= from && day <= to;
  return { machines: [...machines.values()].filter(isIn), network: [...network.values()].filter(isIn) };
}

function added(hours: readonly number[], hour: number, amount: number): number[] {
  return hours.map((value, index) => (index === hour ? value + amount : value));
}

function both(a: readonly number[], b: readonly number[]): number[] {
  return a.map((value, index) => value + (b[index] ?? 0));
}

function sumOf(before: MachineDay | undefined, fresh: MachineDay | undefined): MachineDay {
  if (!before || !fresh) return (before ?? fresh) as MachineDay;
  const { onlineMs, closedMs, lostMs, failures } = fresh;
  return {
    ...{ ...before, name: fresh.name, owner: fresh.owner, provider: fresh.provider },
    ...{ onlineMs: both(before.onlineMs, onlineMs), closedMs: both(before.closedMs, closedMs) },
    ...{ lostMs: both(before.lostMs, lostMs), failures: both(before.failures, failures) },
  };
}

function noNetworkDay(day: string): NetworkDay {
  return {
    day,
    recoveries: noHours(),
    recoveryMs: noHours(),
    longestMs: noHours(),
    steps: noHours(),
    repeated: noHours(),
  };
}

function networkSum(before: NetworkDay | undefined, fresh: NetworkDay): NetworkDay {
  if (!before) return fresh;
  return {
    day: before.day,
    recoveries: both(before.recoveries, fresh.recoveries),
    recoveryMs: both(before.recoveryMs, fresh.recoveryMs),
    longestMs: before.longestMs.map((value, hour) => Math.max(value, fresh.longestMs[hour] ?? 0)),
    steps: both(before.steps, fresh.steps),
    repeated: both(before.repeated, fresh.repeated),
  };
}
