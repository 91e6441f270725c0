// A world of members alone: the production membership on simulated hosts, with loss, pauses, splits, crashes with and without
// their disks, and a member that lies. When the faults are over, everybody has to know exactly who is there.

import { fail } from "../../src/core/errors.ts";
import type { KeyId } from "../../src/core/ids.ts";
import type { KeptFile } from "../../src/membership/kept.ts";
import type { Facts, Member, Standing } from "../../src/membership/member.ts";
import { Membership, type MembershipOptions } from "../../src/membership/membership.ts";
import { permit } from "../../src/membership/records.ts";
import { GossipService } from "../../src/protocol/gen/dcnr/v1/gossip_pb.ts";
import type { Network, UnaryMethod } from "../../src/protocol/network.ts";
import { withKey } from "../../src/protocol/routes/address.ts";
import { SeededChance } from "../world/chance.ts";
import { simulatedIdentity, simulatedKeys } from "../world/keys.ts";
import { Fabric, type SimulatedNetwork } from "../world/network.ts";
import { networkKey } from "../world/network-key.ts";
import { noWireFaults, Wire } from "../world/wire.ts";
import { type Host, SimulatedWorld } from "../world/world.ts";
import { lie } from "./liar.ts";
import type { MembershipMutant } from "./mutants.ts";
import { addressOf, drawPlan, faultsMs, type MembershipViolation, type Plan } from "./plan.ts";

export interface MembershipReport {
  readonly seed: number;
  readonly violations: readonly MembershipViolation[];
  readonly faults: Readonly<Record<string, number>>;
}

interface Running {
  readonly host: Host;
  readonly membership: Membership;
}

/** After the faults everybody has this long to agree. */
const quietMs = 400_000;
/** Whoever was undisturbed for so long must not be buried, unless somebody had reason to before. */
const undisturbedMs = 15_000;

const network = simulatedIdentity(networkKey);
const foreverSeconds = 4_000_000_000;

/** Nobody reminds a machine of what it has forgotten. */
function deafTo(wires: SimulatedNetwork): Network {
  return {
    id: wires.id,
    call: async (address, method, request, options) => {
      if ((method as UnaryMethod) === GossipService.method.remind) fail("unavailable", "nobody reminds anybody");
      return wires.call(address, method, request, options);
    },
    watch: (address, method, request, options) => wires.watch(address, method, request, options),
    open: (address, method, options) => wires.open(address, method, options),
    serve: (address, services) => wires.serve(address, services),
    close: () => wires.close(),
  };
}

function sayingOf({ id, sequence, incarnation }: Member): string {
  return `${id} ${sequence} ${incarnation}`;
}

class MembershipRun {
  readonly world: SimulatedWorld;
  readonly fabric: Fabric;
  readonly plan: Plan;
  readonly #mutant: MembershipMutant | undefined;
  readonly #running = new Map<string, Running>();
  readonly #disks = new Map<string, Uint8Array>();
  /** What has really been said: who, with which sequence, in which life. */
  readonly #said = new Set<string>();
  readonly #disturbedMs = new Map<string, number>();
  /** Records whose subjects were away when somebody buried them. */
  readonly #rightly = new Set<string>();
  #splits = 0;
  readonly #violations = new Map<string, MembershipViolation>();

  constructor(seed: number, mutant: MembershipMutant | undefined) {
    this.world = new SimulatedWorld(seed);
    this.plan = drawPlan(new SeededChance(seed, "membership"), mutant?.aim);
    this.#mutant = mutant;
    const wire = new Wire(this.world);
    wire.faults = { ...noWireFaults, loss: this.plan.loss, duplicate: this.plan.loss };
    this.fabric = new Fabric(wire);
  }

  async finish(): Promise<MembershipReport> {
    const { world, plan, fabric } = this;
    for (const name of plan.members) this.#start(name);
    for (const fault of plan.faults) {
      const { atMs, forMs } = fault;
      const during = (begin: () => void, end: () => void) => {
        world.time.after(atMs, begin);
        world.time.after(atMs + forMs, end);
      };
      if (fault.kind === "pause")
        during(
          () => this.#pause(fault.member),
          () => this.#resume(fault.member),
        );
      if (fault.kind === "crash")
        during(
          () => this.#crash(fault.member, fault.loses),
          () => !fault.forGood && this.#start(fault.member),
        );
      if (fault.kind === "split")
        during(
          () => this.#split(fault.side, "block"),
          () => this.#split(fault.side, "unblock"),
        );
    }
    if (plan.liar) lie({ ...this, lies: () => [...this.#running.keys()] }, faultsMs);
    world.time.after(faultsMs, () => {
      fabric.wire.faults = noWireFaults;
    });
    await world.time.run(
      () => world.time.nowMs > faultsMs + 60_000 && this.#disagreements().length === 0,
      faultsMs + quietMs,
    );
    for (const message of this.#disagreements()) this.#violate("views differ", message);
    for (const { host, error } of world.failures) this.#violate("error", `${host} threw ${String(error)}`);
    for (const { membership } of this.#running.values()) await membership.stop(false);
    return {
      seed: world.seed,
      violations: [...this.#violations.values()],
      faults: Object.fromEntries(world.trace.faults),
    };
  }

  #start(name: string): void {
    const { plan, world, fabric } = this;
    const host = world.start(name);
    const isOrchestrator = name.startsWith("o");
    const identity = isOrchestrator ? network : simulatedIdentity(name);
    const wires = fabric.network(host, isOrchestrator ? networkKey : (name as KeyId));
    const incarnation = `${name}.${host.incarnation}`;
    const facts = (): Facts => ({
      ...{ name, routes: [addressOf(name)], roles: [isOrchestrator ? ("orchestrator" as const) : ("pnode" as const)] },
      ...{ numerics: ["reference"], cores: 2, memoryBytes: 2 ** 30, gflops: 1, load: 0, region: incarnation },
    });
    const options: MembershipOptions = {
      ...{ id: name, role: isOrchestrator ? ("orchestrator" as const) : ("pnode" as const), incarnation, identity },
      keys: this.#mutant?.keys ?? simulatedKeys,
      networkKey,
      network: this.#mutant?.reminds === false ? deafTo(wires) : wires,
      world: host.world,
      facts,
      contacts: () => [
        withKey(addressOf(plan.contact), plan.contact.startsWith("o") ? networkKey : (plan.contact as KeyId)),
      ],
      file: this.#diskOf(name),
      timings: { syncMs: 20_000, retryDeadMs: 10_000 },
      ...(this.#mutant?.openGossip && { openGossip: this.#mutant.openGossip }),
    };
    const membership = new Membership(options);
    const running = { host, membership };
    this.#running.set(name, running);
    this.#disturbed(name);
    membership.onChange((member, standing) => this.#changed(name, member, standing));
    void fabric
      .network(host, isOrchestrator ? networkKey : (name as KeyId))
      .serve(addressOf(name), [membership.service])
      .then(() => membership.start())
      .then(() => {
        if (!isOrchestrator && !this.#isRemembered(name))
          membership.admit(permit(network, name, foreverSeconds), network);
      })
      .catch((error: unknown) => host.alive && this.#violate("error", `${name} does not start: ${String(error)}`));
  }

  /** As while no orchestrator is there: others who knew it before have to say that it was let in once, if its disk does not. */
  #isRemembered(name: string): boolean {
    const others = [...this.#running.values()].filter(
      ({ host, membership }) => host.name !== name && membership.known().some(({ member }) => member.id === name),
    );
    return this.plan.isLetInOnce && others.length > 1;
  }

  #diskOf(name: string): KeptFile {
    return {
      read: async () => this.#disks.get(name),
      write: async (content) => void this.#disks.set(name, content.slice()),
    };
  }

  #pause(name: string): void {
    const host = this.#running.get(name)?.host;
    if (host === undefined) return;
    this.world.trace.fault(this.world.time.nowMs, "pause", name, "");
    host.pause();
    this.#disturbed(name);
  }

  #resume(name: string): void {
    this.world.host(name)?.resume();
    this.#disturbed(name);
  }

  #crash(name: string, losesDisk: boolean): void {
    const host = this.#running.get(name)?.host;
    if (host === undefined) return;
    this.world.trace.fault(this.world.time.nowMs, losesDisk ? "crash, disk lost" : "crash", name, "");
    host.crash(true);
    this.#running.delete(name);
    this.#disturbed(name);
    if (losesDisk) this.#disks.delete(name);
  }

  #split(side: ReadonlySet<string>, act: "block" | "unblock"): void {
    const { members } = this.plan;
    this.#splits += act === "block" ? 1 : -1;
    if (act === "block") this.world.trace.fault(this.world.time.nowMs, "split", [...side].join(" "), "");
    for (const one of members)
      for (const other of members) if (side.has(one) !== side.has(other)) this.fabric.wire[act](one, other);
    for (const name of members) this.#disturbed(name);
  }

  #disturbed(name: string): void {
    this.#disturbedMs.set(name, this.world.time.nowMs);
  }

  #isUndisturbed(name: string): boolean {
    const running = this.#running.get(name);
    if (running === undefined || running.host.paused || this.#splits > 0) return false;
    return this.world.time.nowMs - (this.#disturbedMs.get(name) ?? 0) > undisturbedMs;
  }

  #changed(by: string, member: Member, standing: Standing): void {
    this.#remember();
    if (standing === "dead") this.#buried(by, member);
    if (standing === "dead" || !this.plan.members.includes(member.id)) return;
    if (!this.#said.has(sayingOf(member)) || member.region !== member.incarnation)
      this.#violate("forged", `${by} believes what ${member.id} never said: ${member.region} with ${member.sequence}`);
  }

  #buried(by: string, { id, sequence }: Member): void {
    const name = `${id} ${sequence}`;
    if (!this.#isUndisturbed(id)) this.#rightly.add(name);
    else if (this.plan.loss === 0 && !this.#rightly.has(name))
      this.#violate("wrong burial", `${by} buries ${id}, which was there`);
  }

  /** What everybody says of itself now. Before anybody else can have heard it: called with every change. */
  #remember(): void {
    for (const { membership } of this.#running.values()) if (membership.self) this.#said.add(sayingOf(membership.self));
  }

  #disagreements(): string[] {
    const wrong: string[] = [];
    for (const [name, { membership }] of this.#running) {
      const known = new Map(membership.known().map((one) => [one.member.id, one]));
      for (const other of this.plan.members) {
        if (other === name) continue;
        const running = this.#running.get(other);
        if (membership.alive(other) !== (running !== undefined))
          wrong.push(`${name} takes ${other} for ${running === undefined ? "alive" : "dead"}`);
        else if (running !== undefined && known.get(other)?.member.incarnation !== running.membership.self?.incarnation)
          wrong.push(`${name} knows an earlier life of ${other}`);
      }
    }
    return wrong;
  }

  #violate(kind: MembershipViolation["kind"], message: string): void {
    if (!this.#violations.has(kind)) this.#violations.set(kind, { kind, message });
  }
}

export function runMembership(seed: number, mutant?: MembershipMutant): Promise<MembershipReport> {
  return new MembershipRun(seed, mutant).finish();
}
