// From the work that waits to the machines that should be fetched, given back or kept: a pure function of the fleet, of
// machines that are on their way, of what providers offer and of their bounds. A gang gets all that it needs or nothing; the
// cheapest offer that meets its requirements comes first; nobody with work on it is sent away, unless the money is spent.

import { classFor, fit, mayHost, type Room, roomOf, unitsThatFit } from "./scale-rooms.ts";
import type { Scaled, ScaleMachine, ScaleOffer, ScaleProvider, ScaleView, WaitingWork } from "./scale-types.ts";
import { policyKey } from "./timeline.ts";

/** What a loss costs beside the boot: the steps since the last line, and another placement. */
const repeatMs = 60_000;
/** A machine that is started should be payable for at least this long. */
const payableHours = 0.25;
/** So long before the money is spent, work is sent elsewhere. */
const lastHours = 1 / 12;
const hourMs = 3_600_000;
/** Those further back are looked at when the ones before them are served. */
const waitingMost = 1_000;

export function autoscale(view: ScaleView): Scaled {
  return new Scaling(view).decide();
}

/** A loss makes its work move and its boot be paid again. */
export function effectivePrice({ pricePerHour, lossPerHour, bootMs }: ScaleOffer): number {
  return pricePerHour * (1 + (lossPerHour * (bootMs + repeatMs)) / hourMs);
}

class Scaling {
  readonly #view: ScaleView;
  readonly #rooms: Room[];
  readonly #offers: readonly ScaleOffer[];
  readonly #starts: { provider: string; offer: ScaleOffer; for: string }[] = [];
  readonly #unmet = new Map<string, string>();
  readonly #hopeless = new Map<string, { readonly vnodes: number; readonly why: string }>();

  constructor(view: ScaleView) {
    this.#view = view;
    this.#offers = [...view.offers].sort(
      (a, b) => effectivePrice(a) - effectivePrice(b) || a.bootMs - b.bootMs || (a.name < b.name ? -1 : 1),
    );
    this.#rooms = this.#roomsThatAre();
  }

  decide(): Scaled {
    for (const work of this.#view.waiting.slice(0, waitingMost)) this.#serve(work);
    for (const provider of this.#view.providers) this.#startLeast(provider);
    const keeps = this.#rooms.filter(({ machine, isTaken }) => isTaken && machine?.state === "draining");
    return {
      starts: this.#starts.map(({ provider, offer, for: work }) => ({ provider, offer: offer.name, for: work })),
      drains: this.#view.providers.flatMap((provider) => this.#drains(provider)),
      keeps: keeps.flatMap(({ machine }) => (machine ? [machine.id] : [])),
      unmet: this.#unmet,
    };
  }

  /** The fleet as it is, then what is to end but has not, then what is on its way. */
  #roomsThatAre(): Room[] {
    const { nodes, machines, offers, providers } = this.#view;
    const ofNode = new Map(machines.flatMap((one) => (one.pnode ? [[one.pnode, one] as const] : [])));
    const lasting = (name: string) =>
      providers.some((one) => one.name === name && !one.isRemoving && !isSpent(one, machines));
    const there = nodes.flatMap((node): Room[] => {
      const machine = ofNode.get(node.id);
      if (machine && !lasting(machine.provider)) return [];
      const isDraining = machine?.state === "draining";
      if (!node.accepting && !isDraining) return [];
      return [roomOf({ ...node, accepting: true }, undefined, machine)];
    });
    const first = there.filter(({ machine }) => machine?.state !== "draining");
    const coming = machines.flatMap((machine): Room[] => {
      if (machine.state !== "coming" || !lasting(machine.provider)) return [];
      const offer = offers.find((one) => one.provider === machine.provider && one.name === machine.offer);
      return offer ? [roomOf(undefined, offer, machine)] : [];
    });
    return [...first, ...there.filter((one) => !first.includes(one)), ...coming];
  }

  #serve(work: WaitingWork): void {
    if (work.demand.units.length === 0) return;
    const shape = shapeOf(work);
    const hopeless = this.#hopeless.get(shape);
    if (hopeless && work.demand.vnodes >= hopeless.vnodes) {
      this.#unmet.set(work.id, hopeless.why);
      return;
    }
    const own = classFor(work.policy, this.#view.nodes);
    const added: Room[] = [];
    for (;;) {
      const fitted = fit(work, [...this.#rooms, ...added], own);
      if (fitted) {
        this.#take(fitted);
        const used = added.filter((room) => fitted.has(room));
        this.#rooms.push(...used);
        for (const { offer } of used) if (offer) this.#starts.push({ provider: offer.provider, offer, for: work.id });
        return;
      }
      const next = this.#nextOffer(work, own, added);
      if (typeof next === "string") {
        this.#unmet.set(work.id, next);
        // What is on its way does not change within a decision, and only gets less: a larger one of the kind need not be tried.
        if (work.expectedMs === undefined) this.#hopeless.set(shape, { vnodes: work.demand.vnodes, why: next });
        return;
      }
      added.push(roomOf(undefined, next, undefined));
    }
  }

  #take(fitted: ReadonlyMap<Room, { memoryBytes: number; gpus: number }>): void {
    for (const [room, { memoryBytes, gpus }] of fitted) {
      room.memoryLeft -= memoryBytes;
      room.gpusLeft -= gpus;
      room.isTaken = true;
    }
  }

  /** The cheapest offer that takes part of the work and may be started, or why there is none. */
  #nextOffer(work: WaitingWork, own: string, added: readonly Room[]): ScaleOffer | string {
    const smallest = work.demand.units.at(-1)?.memoryBytes ?? 0;
    const able = this.#offers.filter((offer) => {
      const room = roomOf(undefined, offer, undefined);
      return room.memoryLeft >= smallest && mayHost(room, work.policy, own);
    });
    if (able.length === 0) return "no provider offers a machine that it could use";
    const unitsOn = (offer: ScaleOffer) => unitsThatFit(offer, work.demand);
    const perUnit = (offer: ScaleOffer) => effectivePrice(offer) / unitsOn(offer);
    const cheapest = [...able].sort((a, b) => perUnit(a) - perUnit(b) || unitsOn(b) - unitsOn(a));
    const sooner = cheapest.filter(({ bootMs }) => work.expectedMs === undefined || work.expectedMs > bootMs);
    if (sooner.length === 0) return "it starts sooner without another machine";
    let why = "";
    for (const offer of sooner) {
      const refusal = this.#refusal(offer, added);
      if (refusal === undefined) return offer;
      why ||= refusal;
    }
    return why;
  }

  #refusal(offer: ScaleOffer, added: readonly Room[]): string | undefined {
    const provider = this.#view.providers.find(({ name }) => name === offer.provider);
    if (!provider || provider.isRemoving) return `provider ${offer.provider} is being removed`;
    const wanted = [...this.#starts.map((one) => one.offer), ...added.flatMap((one) => one.offer ?? [])];
    const there = this.#view.machines.filter((one) => one.provider === provider.name);
    const ours = wanted.filter((one) => one.provider === provider.name);
    const alike =
      there.filter((one) => one.offer === offer.name).length + ours.filter((one) => one.name === offer.name).length;
    if (alike >= offer.most) return `provider ${provider.name} has no more of ${offer.name}: ${offer.most} are there`;
    const count = there.length + ours.length;
    if (count >= provider.most) return `provider ${provider.name} may run ${provider.most} machine(s), and does`;
    const rate =
      sum(there.map((one) => one.pricePerHour)) + sum(ours.map((one) => one.pricePerHour)) + offer.pricePerHour;
    if (provider.budgetPerHour > 0 && rate > provider.budgetPerHour + 1e-9)
      return `provider ${provider.name} may cost ${provider.budgetPerHour} an hour; another ${offer.name} would make it ${Number(rate.toFixed(4))}`;
    if (provider.budgetTotal > 0 && provider.spent + rate * payableHours > provider.budgetTotal)
      return `provider ${provider.name} has spent ${Number(provider.spent.toFixed(2))} of ${provider.budgetTotal}`;
    return undefined;
  }

  #startLeast(provider: ScaleProvider): void {
    if (provider.isRemoving) return;
    const there = this.#view.machines.filter(
      (one) => one.provider === provider.name && one.state !== "draining",
    ).length;
    const ours = () => this.#starts.filter((one) => one.provider === provider.name).length;
    const kept = this.#rooms.filter(
      ({ machine, isTaken }) => isTaken && machine?.state === "draining" && machine.provider === provider.name,
    ).length;
    while (there + kept + ours() < provider.least) {
      const offer = this.#offers.find((one) => one.provider === provider.name && this.#refusal(one, []) === undefined);
      if (!offer) return;
      this.#starts.push({ provider: provider.name, offer, for: "" });
    }
  }

  #drains(provider: ScaleProvider): { machine: string; why: string }[] {
    const own = this.#view.machines.filter((one) => one.provider === provider.name && one.state === "up");
    if (provider.isRemoving) return own.map(({ id }) => ({ machine: id, why: "its provider is being removed" }));
    if (isSpent(provider, this.#view.machines))
      return own.map(({ id }) => ({ machine: id, why: `its provider has spent its ${provider.budgetTotal}` }));
    if (provider.sinceStartMs < provider.coolDownMs || this.#starts.some((one) => one.provider === provider.name))
      return [];
    const taken = new Set(this.#rooms.filter(({ isTaken }) => isTaken).map(({ machine }) => machine?.id));
    const count = this.#view.machines.filter(
      (one) => one.provider === provider.name && one.state !== "draining",
    ).length;
    const idle = own.filter(({ id, idleMs }) => idleMs !== undefined && idleMs >= provider.idleMs && !taken.has(id));
    // The dearest first.
    idle.sort((a, b) => b.pricePerHour - a.pricePerHour || (a.id < b.id ? -1 : 1));
    return idle
      .slice(0, Math.max(0, count - provider.least))
      .map(({ id }) => ({ machine: id, why: "it has nothing to do" }));
  }
}

function isSpent({ name, budgetTotal, spent }: ScaleProvider, machines: readonly ScaleMachine[]): boolean {
  const rate = sum(machines.filter((one) => one.provider === name).map((one) => one.pricePerHour));
  return budgetTotal > 0 && spent + rate * lastHours >= budgetTotal;
}

/** Works of one shape differ in nothing but their number of VNodes. */
function shapeOf({ policy, demand }: WaitingWork): string {
  return `${policyKey(policy)}|${demand.units.map(({ memoryBytes }) => memoryBytes).join("+")}`;
}

function sum(values: readonly number[]): number {
  return values.reduce((total, value) => total + value, 0);
}
