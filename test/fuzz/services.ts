// Drawn messages for every RPC of an orchestrator, a PNode, a member that gossips and a relay: production code on virtual
// time, with a session under way that is checked and has a crew, so that the ids, hashes and epochs in the messages are those
// of something that exists.

import { create, type DescMethod, type DescService, getOption, type Message } from "@bufbuild/protobuf";
import { addressOf, type Site, startHost } from "../../simulation/boot.ts";
import { Records } from "../../simulation/checks/records.ts";
import { Maintainer, storeData } from "../../simulation/maintainer.ts";
import { type Scenario, scenarios } from "../../simulation/scenarios.ts";
import { SimulatedBlobs } from "../../simulation/world/blobs.ts";
import { SeededChance } from "../../simulation/world/chance.ts";
import { simulatedIdentity, simulatedKeys } from "../../simulation/world/keys.ts";
import { Fabric } from "../../simulation/world/network.ts";
import { networkKey } from "../../simulation/world/network-key.ts";
import { SimulatedStore } from "../../simulation/world/store.ts";
import { Wire } from "../../simulation/world/wire.ts";
import { SimulatedWorld } from "../../simulation/world/world.ts";
import type { KeyId } from "../../src/core/ids.ts";
import { base32 } from "../../src/core/keys.ts";
import type { Facts } from "../../src/membership/member.ts";
import { Membership } from "../../src/membership/membership.ts";
import { permit } from "../../src/membership/records.ts";
import { access, Rule } from "../../src/protocol/gen/dcnr/v1/access_pb.ts";
import { DatasetService } from "../../src/protocol/gen/dcnr/v1/data_pb.ts";
import { ExchangeService } from "../../src/protocol/gen/dcnr/v1/exchange_pb.ts";
import { FleetService } from "../../src/protocol/gen/dcnr/v1/fleet_pb.ts";
import { GossipService } from "../../src/protocol/gen/dcnr/v1/gossip_pb.ts";
import { InferenceService } from "../../src/protocol/gen/dcnr/v1/inference_pb.ts";
import { JobService } from "../../src/protocol/gen/dcnr/v1/job_pb.ts";
import { LedgerService } from "../../src/protocol/gen/dcnr/v1/ledger_pb.ts";
import { NetworkService } from "../../src/protocol/gen/dcnr/v1/network_pb.ts";
import { RelayService } from "../../src/protocol/gen/dcnr/v1/relay_pb.ts";
import { RightsService } from "../../src/protocol/gen/dcnr/v1/rights_pb.ts";
import { ServingService } from "../../src/protocol/gen/dcnr/v1/serving_pb.ts";
import { SessionService } from "../../src/protocol/gen/dcnr/v1/session_pb.ts";
import { SessionPeerService } from "../../src/protocol/gen/dcnr/v1/session_peers_pb.ts";
import { SystemService } from "../../src/protocol/gen/dcnr/v1/system_pb.ts";
import { TrustService } from "../../src/protocol/gen/dcnr/v1/trust_pb.ts";
import type { BidiMethod, Network, RequestInit, ServerStreamMethod, UnaryMethod } from "../../src/protocol/network.ts";
import { withKey } from "../../src/protocol/routes/address.ts";
import { callsOnly } from "../../src/relay/limits.ts";
import { Relay } from "../../src/relay/relay.ts";
import { contractServices } from "../rights/contract.ts";
import {
  cpuMs,
  emptyTally,
  ending,
  type Finding,
  heldMsMax,
  note,
  type Tally,
  type Verdict,
  verdictOf,
} from "./findings.ts";
import { changedMessage, drawnMessage, Words } from "./messages.ts";

/** A new world after so many, because drawn messages delete, fill up and suspend. */
const messagesPerWorld = 1_000;
/** Sent at once: a network at work costs as much while one is answered. */
const volleyMost = 40;
const answerMsMax = 5_000;
/** Long, so that the world's own work is little beside what the messages cause. */
const computeMs = 400;
/** Worlds are the same every time, so what was held up by compiling, collecting garbage or a neighbour is not again. */
const repeats = 4;
/** Until there are states to serve. */
const warmMs = 25_000;
/** There is work under way for as long as a world is asked. */
const stepsUnending = 100_000;
const foreverSeconds = 4_000_000_000;
/** Of each method. */
const sentKept = 40;

/** Whoever serves what orchestrators do not; everything else of the contract is theirs. */
const servedBy: readonly (readonly [hosts: readonly string[], services: readonly DescService[]])[] = [
  [
    ["p1", "p2"],
    [ExchangeService, ServingService, SessionPeerService, SystemService],
  ],
  [["m1", "m2"], [GossipService]],
  [["r1"], [RelayService]],
];
const elsewhere = servedBy.flatMap(([, services]) => services).filter((one) => one !== SystemService);
const ofOrchestrators = (await contractServices()).filter((one) => !elsewhere.includes(one));

/** By how often each is drawn. */
const targets: readonly (readonly [hosts: readonly string[], methods: readonly DescMethod[]])[] = [
  ...Array(6).fill([["o1"], ofOrchestrators] as const),
  ...Array(2).fill(servedBy[0]),
  ...servedBy.slice(1),
].map(([hosts, services]) => [hosts, services.flatMap(({ methods }: DescService) => methods)]);

/** A message that is under way. */
interface Ending {
  readonly finding: Omit<Finding, "message">;
  verdict: Verdict;
  over?: Promise<void>;
}

/** How long one turn of the thread computed at most, while which messages were under way. */
interface Held {
  readonly finding: Omit<Finding, "message">;
  readonly ms: number;
}

export async function fuzzServices(seed: number, messages: number, tally: Tally): Promise<void> {
  for (let done = 0, world = seed; done < messages; done += messagesPerWorld, world++) {
    let slow = await new ServiceWorld(world).run(Math.min(messagesPerWorld, messages - done), tally);
    for (let turn = 1; turn < repeats && slow.some(isTooLong); turn++)
      slow = await leastOf(world, slow.filter(isTooLong));
    for (const { finding, ms } of slow) {
      if (ms > tally.slowestMs)
        Object.assign(tally, { slowestMs: ms, slowest: `services ${finding.seed}/${finding.index}` });
      if (isTooLong({ finding, ms }))
        tally.findings.push({ ...finding, message: `one of these holds the thread for ${ms.toFixed(0)} ms` });
    }
  }
}

const isTooLong = ({ ms }: Held) => ms > heldMsMax;

/** The same messages once more, up to the last that was slow. */
async function leastOf(world: number, slow: readonly Held[]): Promise<Held[]> {
  const again = await new ServiceWorld(world).run(slow.at(-1)?.finding.index ?? 0, emptyTally());
  return slow.map((held) => {
    const other = again.find(({ finding }) => finding.index === held.finding.index);
    return other && other.ms < held.ms ? other : held;
  });
}

class ServiceWorld {
  readonly #seed: number;
  readonly #chance: SeededChance;
  readonly #scenario: Scenario;
  readonly #site: Site;
  readonly #words = new Words();
  /** Some of the messages that honest processes sent, by method. */
  readonly #sent = new Map<DescMethod, Message[]>();
  /** CPU time of the longest turn of the thread since it was set to 0. */
  #longestMs = 0;

  constructor(seed: number) {
    this.#seed = seed;
    this.#chance = new SeededChance(seed, "fuzz");
    this.#scenario = { ...this.#chance.pick(scenarios), steps: stepsUnending };
    const world = new SimulatedWorld(seed);
    const store = new SimulatedStore(world);
    this.#site = {
      world,
      store,
      fabric: new Fabric(new Wire(world, { delayMs: 1 })),
      blobs: new SimulatedBlobs(world),
      records: new Records(store),
      addresses: [addressOf("o1")],
      builds: new Map(),
      behaviours: new Map(),
      relays: [],
      whispers: new Map(),
      computeMs,
      retainedBytesMax: 1 << 20,
      copyBytesMax: 1 << 20,
      vnodesPerPNode: 6,
      mutant: undefined,
      disks: new Map(),
      keptDisks: new Map(),
      onWork: () => {},
      running: new Map(),
    };
  }

  #remember(message: Message, method: DescMethod): void {
    const known = this.#sent.get(method) ?? [];
    this.#sent.set(method, known);
    if (known.length < sentKept) known.push(create(method.input, message as never));
  }

  #draw(method: DescMethod, chance: SeededChance): Message {
    const known = this.#sent.get(method) ?? [];
    if (known.length > 0 && chance.happens(0.7))
      return changedMessage(method.input, chance.pick(known), chance, this.#words);
    return drawnMessage(method.input, chance, this.#words);
  }

  async run(messages: number, tally: Tally): Promise<Held[]> {
    const { world, fabric, blobs, running } = this.#site;
    const held: Held[] = [];
    const strays: unknown[] = [];
    const onRejection = (thrown: unknown) => strays.push(thrown);
    process.on("unhandledRejection", onRejection);
    const at = (index: number, target: string) => ({ target, seed: this.#seed, index });
    try {
      for (const name of ["o1", "p1", "p2"]) startHost(this.#site, name);
      for (const name of ["m1", "m2"]) await this.#startMember(name);
      const relaying = world.start("r1");
      await fabric.network(relaying).serve(addressOf("r1"), [new Relay(relaying.world, callsOnly).service()]);
      fabric.network(world.start("hidden"), "p1" as KeyId).open(addressOf("r1"), RelayService.method.reserve);
      this.#words.learn({ target: "p1" });
      const scenario = this.#scenario;
      const manifest = await storeData(scenario.data, blobs);
      const person = world.start("maintainer");
      const maintainer = new Maintainer(person, fabric.people(person), this.#site.addresses);
      // Sessions with a crew are not checked.
      const more = this.#chance.happens(0.5) ? { autonomy: "on" as const } : { assurance: "sampled" as const };
      const policy = { checkpointEvery: 2, replicas: 1, ...more };
      let session = "";
      void maintainer.train({ scenario, manifest, policy, key: "one", atMs: 0 }).then((id) => {
        session = id;
      });
      fabric.onSend = (message, method, side) => {
        this.#words.learn(message);
        if (side === "input") this.#remember(message as Message, method);
      };
      await this.#pass(warmMs);
      await this.#askEverything(fabric.people(person), session);
      fabric.onSend = () => {};
      const chance = this.#chance;
      const liar = world.start("liar");
      // Who has every right, a member that lies, somebody with the network's key, and a stranger.
      const callers = [
        ...[fabric.people(liar), fabric.people(liar), fabric.network(liar, "p2" as KeyId)],
        ...[fabric.network(liar, "p2" as KeyId), fabric.network(liar, networkKey), fabric.network(liar)],
        ...[fabric.network(liar, "m2" as KeyId)],
      ];
      const rightful = (method: DescMethod): Network => {
        const { rule } = getOption(method, access);
        if (rule === Rule.ORCHESTRATOR) return fabric.network(liar, networkKey);
        if (rule === Rule.OPEN || rule === Rule.KEY) return fabric.people(liar);
        return fabric.network(liar, (method.parent === GossipService ? "m2" : "p2") as KeyId);
      };
      for (let index = 0; index < messages; ) {
        const volley: Ending[] = [];
        for (const last = Math.min(messages, index + volleyMost); index < last; index++) {
          const [hosts, methods] = chance.pick(targets);
          const method = chance.pick(methods);
          const message = this.#draw(method, chance);
          const behind = Array.from({ length: chance.whole(0, 3) }, () => this.#draw(method, chance));
          const address = addressOf(chance.pick(hosts));
          const caller = chance.happens(0.5) ? rightful(method) : chance.pick(callers);
          // Whoever waits longer than it is waited for, as watching does, was let in.
          const one: Ending = { finding: at(index, `${method.parent.typeName}.${method.name}`), verdict: "accepted" };
          one.over = ending(() => send(caller, address, method, message, behind)).then((verdict) => {
            one.verdict = verdict;
          });
          volley.push(one);
        }
        this.#longestMs = 0;
        await this.#answered(Promise.all(volley.map(({ over }) => over)));
        for (const { finding, verdict } of volley) note(tally, finding, verdict);
        const all = at(index, volley.map(({ finding }) => finding.target).join(", "));
        held.push({ finding: all, ms: this.#longestMs });
        for (const { host, error } of world.failures.splice(0))
          tally.findings.push(broken(all, `${host} threw`, error));
        for (const thrown of strays.splice(0)) tally.findings.push(broken(all, "unhandled", thrown));
      }
      return held;
    } finally {
      for (const { free } of running.values()) free();
      process.off("unhandledRejection", onRejection);
    }
  }

  /** One of two members that know each other, beside the network: gossip has no place in the simulator's usual hosts. */
  async #startMember(name: string): Promise<void> {
    const { world, fabric } = this.#site;
    const host = world.start(name);
    const identity = simulatedIdentity(name);
    const facts = (): Facts => ({
      ...{ name, routes: [addressOf(name)], roles: ["pnode" as const], numerics: ["reference"], cores: 2 },
      ...{ memoryBytes: 2 ** 30, gflops: 1, load: 0, region: "" },
    });
    const network = fabric.network(host);
    const membership = new Membership({
      ...{
        id: name,
        role: "pnode" as const,
        incarnation: `${name}.1`,
        identity,
        keys: simulatedKeys,
        networkKey,
        facts,
      },
      ...{ network, world: host.world, timings: { syncMs: 1_000 } },
      contacts: () => [withKey(addressOf("m1"), "m1" as KeyId)],
    });
    await network.serve(addressOf(name), [membership.service]);
    await membership.start();
    const owner = simulatedIdentity(networkKey);
    membership.admit(permit(owner, name, foreverSeconds), owner);
  }

  /** One honest call of what people use, so that there is a good message to change. */
  async #askEverything(network: Network, session: string): Promise<void> {
    const [address] = this.#site.addresses as [string];
    const { definition } = this.#scenario;
    const ask = <M extends UnaryMethod>(method: M, request: RequestInit<M>) =>
      this.#answered(network.call(address, method, request, { timeoutMs: answerMsMax - 1_000 })).catch(() => {});
    await ask(NetworkService.method.createNetwork, { definition, id: "another" });
    await ask(NetworkService.method.updateNetwork, { definition, id: "another" });
    await ask(InferenceService.method.serveModel, { name: "model", source: session, replicas: 1, spread: 1 });
    await this.#pass(answerMsMax);
    await ask(InferenceService.method.forward, {
      model: "model",
      dataset: this.#scenario.name,
      split: "all",
      count: 1,
    });
    await ask(InferenceService.method.createApiKey, { name: "k", scopes: ["read"] });
    await ask(SessionService.method.getSession, { id: session });
    await ask(SessionService.method.listStates, { session });
    await ask(SessionService.method.listMetrics, { session });
    await ask(DatasetService.method.showSamples, { name: "chain", count: 2 });
    await ask(FleetService.method.listVNodes, { session });
    const spec = JSON.stringify({ source: session, split: "all", samples: 2, batch: 1 });
    await ask(JobService.method.submitJobs, { jobs: [{ kind: "evaluate", name: "job", key: "k", spec }] });
    await ask(JobService.method.setQueue, { name: "queue", cohort: "lab", nominal: { gpus: 1, jobs: 2 } });
    await ask(JobService.method.getJob, { id: "job" });
    await ask(RightsService.method.admitKey, { key: base32(new Uint8Array(32)), name: "k", scopes: ["read"] });
    await ask(LedgerService.method.listBlocks, { chain: session, from: 0n });
    await ask(LedgerService.method.recordPayout, { id: "payout", pnode: "p1", credits: 1n, note: "paid" });
    await ask(LedgerService.method.setBudget, { owner: "p1", credits: 1_000_000n });
    await ask(TrustService.method.listStandings, { pnode: "p1" });
    await ask(TrustService.method.describeInterval, { session, vnode: "0", step: 1n });
    await ask(TrustService.method.setTrust, { pnode: "p1", standing: "known", reason: "fine" });
  }

  async #pass(ms: number): Promise<void> {
    const { time } = this.#site.world;
    let isOver = false;
    time.after(ms, () => {
      isOver = true;
    });
    await time.run(() => isOver, Number.POSITIVE_INFINITY);
  }

  /** Drives virtual time until it settles; what waits longer, as watching does, is left. */
  async #answered(answer: Promise<unknown>): Promise<unknown> {
    const { time } = this.#site.world;
    let isOver = false;
    const over = () => {
      isOver = true;
    };
    answer.then(over, over);
    time.after(answerMsMax, over);
    let startMs = cpuMs();
    // It is asked before each event: what lies between is one event and all that follows from it without a wait, such as the whole
    // of a handler up to its first question to the store.
    const isOverNow = () => {
      const nowMs = cpuMs();
      this.#longestMs = Math.max(this.#longestMs, nowMs - startMs);
      startMs = nowMs;
      return isOver;
    };
    await time.run(isOverNow, Number.POSITIVE_INFINITY);
    return Promise.race([answer, undefined]);
  }
}

function broken(finding: Omit<Finding, "message">, what: string, thrown: unknown): Finding {
  return { ...finding, message: `${what}: ${verdictOf(thrown)}` };
}

async function send(
  network: Network,
  address: string,
  method: DescMethod,
  message: Message,
  more: readonly Message[],
): Promise<void> {
  const ending = new AbortController();
  const options = { timeoutMs: answerMsMax - 1_000, signal: ending.signal };
  if (method.methodKind === "unary") await network.call(address, method as UnaryMethod, message as never, options);
  else if (method.methodKind === "server_streaming") {
    let count = 0;
    for await (const _ of network.watch(address, method as ServerStreamMethod, message as never, options))
      if (++count === 3) break;
  } else if (method.methodKind === "bidi_streaming") {
    const channel = network.open(address, method as BidiMethod, options);
    let count = 0;
    try {
      for (const one of [message, ...more]) await channel.send(one as never);
      for await (const _ of channel.incoming) if (++count === 3) break;
    } catch (error) {
      // Whoever has answered has taken something, however the stream ends.
      if (count === 0 || verdictOf(error) !== "refused") throw error;
    } finally {
      channel.close();
    }
  }
}
