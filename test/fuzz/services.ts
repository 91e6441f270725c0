// Drawn messages for every RPC of an orchestrator and a PNode: production code on virtual time, with a session under way,
// so that the ids, hashes and epochs in the messages are those of something that exists.

import { create, type DescMethod, type Message } from "@bufbuild/protobuf";
import { SimulatedBlobs } from "../../simulation/blobs.ts";
import { addressOf, type Site, startHost } from "../../simulation/boot.ts";
import { SeededChance } from "../../simulation/chance.ts";
import { Maintainer, storeData } from "../../simulation/maintainer.ts";
import { Fabric, networkKey } from "../../simulation/network.ts";
import { Records } from "../../simulation/records.ts";
import { type Scenario, scenarios } from "../../simulation/scenarios.ts";
import { SimulatedStore } from "../../simulation/store.ts";
import { Wire } from "../../simulation/wire.ts";
import { SimulatedWorld } from "../../simulation/world.ts";
import type { KeyId } from "../../src/core/ids.ts";
import { DatasetService, VocabularyService } from "../../src/protocol/gen/dcnr/v1/data_pb.ts";
import { ExchangeService } from "../../src/protocol/gen/dcnr/v1/exchange_pb.ts";
import { FleetService } from "../../src/protocol/gen/dcnr/v1/fleet_pb.ts";
import { InferenceService } from "../../src/protocol/gen/dcnr/v1/inference_pb.ts";
import { JobService } from "../../src/protocol/gen/dcnr/v1/job_pb.ts";
import { MembershipService } from "../../src/protocol/gen/dcnr/v1/membership_pb.ts";
import { NetworkService } from "../../src/protocol/gen/dcnr/v1/network_pb.ts";
import { PNodeService } from "../../src/protocol/gen/dcnr/v1/pnode_pb.ts";
import { ProviderService } from "../../src/protocol/gen/dcnr/v1/provider_pb.ts";
import { ReportService } from "../../src/protocol/gen/dcnr/v1/report_pb.ts";
import { RightsService } from "../../src/protocol/gen/dcnr/v1/rights_pb.ts";
import { ServingService } from "../../src/protocol/gen/dcnr/v1/serving_pb.ts";
import { SessionService } from "../../src/protocol/gen/dcnr/v1/session_pb.ts";
import { SystemService } from "../../src/protocol/gen/dcnr/v1/system_pb.ts";
import type { BidiMethod, Network, RequestInit, ServerStreamMethod, UnaryMethod } from "../../src/protocol/network.ts";
import { type Finding, judge, type Tally, verdictOf } from "./findings.ts";
import { changedMessage, drawnMessage, Words } from "./messages.ts";

/** A new world after so many, because drawn messages delete, fill up and suspend. */
const messagesPerWorld = 400;
const answerMsMax = 5_000;
/** While an answer is waited for, a whole network computes on this thread. */
const worldMsMax = 1_000;
/** Of each method. */
const sentKept = 40;

const onOrchestrators = [
  ...[DatasetService, VocabularyService, FleetService, InferenceService, NetworkService],
  ...[
    JobService,
    MembershipService,
    PNodeService,
    ProviderService,
    ReportService,
    RightsService,
    SessionService,
    SystemService,
  ],
].flatMap(({ methods }) => methods as readonly DescMethod[]);
const onPNodes = [ExchangeService, ServingService, SystemService].flatMap(
  ({ methods }) => methods as readonly DescMethod[],
);

export async function fuzzServices(seed: number, messages: number, tally: Tally): Promise<void> {
  for (let done = 0, world = seed; done < messages; done += messagesPerWorld, world++)
    await new ServiceWorld(world).run(Math.min(messagesPerWorld, messages - done), tally);
}

class ServiceWorld {
  readonly #seed: number;
  readonly #site: Site;
  readonly #words = new Words();
  /** Some of the messages that honest processes sent, by method. */
  readonly #sent = new Map<DescMethod, Message[]>();

  constructor(seed: number) {
    this.#seed = seed;
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
      computeMs: 2,
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

  async run(messages: number, tally: Tally): Promise<void> {
    const { world, fabric, blobs, running } = this.#site;
    const strays: unknown[] = [];
    const onRejection = (thrown: unknown) => strays.push(thrown);
    process.on("unhandledRejection", onRejection);
    const at = (index: number, target: string) => ({ target, seed: this.#seed, index });
    try {
      for (const name of ["o1", "p1", "p2"]) startHost(this.#site, name);
      const scenario = scenarios[this.#seed % scenarios.length] as Scenario;
      const manifest = await storeData(scenario.data, blobs);
      const person = world.start("maintainer");
      const maintainer = new Maintainer(person, fabric.people(person), this.#site.addresses);
      const policy = { checkpointEvery: 2, replicas: 1 };
      let session = "";
      void maintainer.train({ scenario, manifest, policy, key: "one", atMs: 0 }).then((id) => {
        session = id;
      });
      fabric.onSend = (message, method, side) => {
        this.#words.learn(message);
        if (side === "input") this.#remember(message as Message, method);
      };
      await this.#pass(3_000);
      await this.#askEverything(fabric.people(person), session);
      fabric.onSend = () => {};
      const chance = new SeededChance(this.#seed, "fuzz");
      const liar = world.start("liar");
      // Who has every right, a member that lies, somebody with the network's key, and a stranger.
      const callers = [
        ...[fabric.people(liar), fabric.people(liar), fabric.network(liar, "p2" as KeyId)],
        ...[fabric.network(liar, "p2" as KeyId), fabric.network(liar, networkKey), fabric.network(liar)],
      ];
      for (let index = 0; index < messages; index++) {
        const isPNode = chance.happens(0.3);
        const method = chance.pick(isPNode ? onPNodes : onOrchestrators);
        const message = this.#draw(method, chance);
        const more = Array.from({ length: chance.whole(0, 3) }, () => this.#draw(method, chance));
        const address = addressOf(isPNode ? chance.pick(["p1", "p2"]) : "o1");
        const finding = at(index, `${method.parent.typeName}.${method.name}`);
        const caller = chance.pick(callers);
        const answer = () => this.#answered(send(caller, address, method, message, more));
        await judge(tally, finding, answer, worldMsMax);
        for (const { host, error } of world.failures.splice(0))
          tally.findings.push(broken(finding, `${host} threw`, error));
        for (const thrown of strays.splice(0)) tally.findings.push(broken(finding, "unhandled", thrown));
      }
    } finally {
      for (const { free } of running.values()) free();
      process.off("unhandledRejection", onRejection);
    }
  }

  /** One honest call of what people use, so that there is a good message to change. */
  async #askEverything(network: Network, session: string): Promise<void> {
    const [address] = this.#site.addresses as [string];
    const { definition } = scenarios[this.#seed % scenarios.length] as Scenario;
    const ask = <M extends UnaryMethod>(method: M, request: RequestInit<M>) =>
      this.#answered(network.call(address, method, request, { timeoutMs: answerMsMax - 1_000 })).catch(() => {});
    await ask(NetworkService.method.createNetwork, { definition, id: "another" });
    await ask(NetworkService.method.updateNetwork, { definition, id: "another" });
    await ask(InferenceService.method.serveModel, { name: "model", source: session, replicas: 1, spread: 1 });
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
    await time.run(() => isOver, Number.POSITIVE_INFINITY);
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
    for (const one of [message, ...more]) await channel.send(one as never);
    let count = 0;
    for await (const _ of channel.incoming) if (++count === 3) break;
    channel.close();
  }
}
