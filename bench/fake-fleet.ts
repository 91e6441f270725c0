// A fleet that only pretends: PNodes and VNodes of any number whose steps, loads and hosts change all the time.
// For measuring and trying the dashboard at sizes that one machine cannot run.

import type { MessageInitShape } from "@bufbuild/protobuf";
import { randomKey, uniformAt } from "../src/core/numbers/random.ts";
import type { EventSchema } from "../src/protocol/gen/dcnr/v1/common_pb.ts";
import type { WatchFleetResponseSchema } from "../src/protocol/gen/dcnr/v1/fleet_pb.ts";
import type { GetNetworkResponseSchema } from "../src/protocol/gen/dcnr/v1/network_pb.ts";

export type Frame = MessageInitShape<typeof WatchFleetResponseSchema>;
type Event = MessageInitShape<typeof EventSchema>;

export const sessionId = "gpt-0123456789ab";
const stepsTotal = 5_000;
const batch = 64;
const historyPoints = 60;
const pastSteps = 400;

export interface FakeFleetOptions {
  readonly pnodes: number;
  readonly vnodes: number;
  /** Steps between losses of a PNode; 0 for none. */
  readonly lossEvery: number;
  /** Names the VNodes; as of a GPT of two VNodes a block otherwise. */
  readonly vnodeName?: (index: number) => string;
  /** Runs that are over already, each with settings of its own. */
  readonly past?: number;
  /** Machines that left long ago. */
  readonly gone?: number;
}

export class FakeFleet {
  readonly events: Event[] = [];
  readonly #options: FakeFleetOptions;
  readonly #key = randomKey("fake fleet");
  readonly #hosts: number[];
  readonly #epochs: number[];
  readonly #name: (index: number) => string;
  readonly #begunMs = Date.now();
  #lost = -1;
  #chance = 0;
  step = 0;
  suspended = false;
  readonly drained = new Set<string>();

  constructor(options: FakeFleetOptions) {
    this.#options = options;
    this.#hosts = Array.from({ length: options.vnodes }, (_, index) => index % options.pnodes);
    this.#epochs = this.#hosts.map(() => 1);
    this.#name = options.vnodeName ?? vnodeId;
    if (!this.isEmpty) this.#emit("info", "session.started", `session ${sessionId} starts`, { session: sessionId });
  }

  network(): MessageInitShape<typeof GetNetworkResponseSchema> {
    const ids = this.#hosts.map((_, index) => this.#name(index));
    const chain = ids.slice(1).map((to, index) => ({ from: ids[index] as string, to }));
    const skips = ids.slice(2).flatMap((to, index) => (index % 2 === 0 ? [{ from: ids[index] as string, to }] : []));
    return {
      network: { id: "gpt", name: "gpt", hash: "h", parameters: 1_240_000_000n, vnodes: ids.length, nodes: ids.length },
      vnodes: ids.map((id) => ({ id, nodes: [id], parameters: 6_200_000n, memoryBytes: 99_000_000n })),
      edges: [...chain, ...skips].map(({ from, to }) => ({ id: `${from}>${to}`, from, to, kind: "activation" })),
    };
  }

  /** One step of everything. */
  advance(): void {
    if (this.suspended || this.isEmpty) return;
    this.step += 1;
    const { pnodes, lossEvery } = this.#options;
    if (lossEvery === 0) return;
    if (this.step % lossEvery === 0) {
      this.#lost = this.#dice(pnodes);
      const pnode = pnodeId(this.#lost);
      this.#emit("warn", "pnode.lost", `PNode ${pnode} is lost: its stream broke`, { pnode });
    }
    if (this.step % lossEvery !== 3 || this.#lost < 0) return;
    this.#hosts.forEach((host, index) => {
      if (host !== this.#lost) return;
      const next = (host + 1 + this.#dice(pnodes - 1)) % pnodes;
      this.#hosts[index] = next;
      this.#epochs[index] = (this.#epochs[index] as number) + 1;
      const message = `VNode ${this.#name(index)} goes from ${pnodeId(host)} to ${pnodeId(next)}: most room`;
      const about = {
        session: sessionId,
        vnode: this.#name(index),
        pnode: pnodeId(next),
        fromPnode: pnodeId(host),
        step: BigInt(this.step),
      };
      this.#emit("info", "vnode.placed", message, about);
    });
  }

  metrics(fromStep: number, session = sessionId) {
    const last = session === sessionId ? this.step : pastSteps;
    const steps = Array.from({ length: Math.max(0, last - fromStep) }, (_, index) => fromStep + index + 1);
    const slower = session === sessionId ? 1 : 1 + 0.4 * Number(session.slice(-1));
    return steps.flatMap((step) => {
      const point = (name: string, value: number, vnode = "") => ({ name, step: BigInt(step), value, vnode, session });
      const loss = this.#lossAt(step / slower);
      return [
        point("loss", loss),
        point("gradient_norm", 3 / Math.sqrt(step) + 0.2 * uniformAt(this.#key, step), this.#name(0)),
        ...(step % 20 === 0 ? [point("validation_loss", loss + 0.2), point("validation_accuracy", 1 - loss / 8)] : []),
      ];
    });
  }

  frame(): Frame {
    const isLost = (index: number) => index === this.#lost && this.#options.lossEvery > 0 && this.#phase() < 12;
    const { pnodes } = this.#options;
    const online = Array.from({ length: pnodes }, (_, index) => index).filter((index) => !isLost(index)).length;
    return {
      status: {
        orchestrators: ["one"],
        pnodesOnline: online,
        cores: online * 8,
        memoryBytes: BigInt(online) * 32_000_000_000n,
        sessions: this.sessions(),
        history: Array.from({ length: historyPoints }, (_, index) => ({
          wallMs: BigInt(index * 10_000),
          load: 0.5 + 0.3 * uniformAt(this.#key, index),
        })),
      },
      pnodes: Array.from({ length: pnodes + (this.#options.gone ?? 0) }, (_, index) => ({
        id: pnodeId(index),
        name: `machine-${index + 1}`,
        status: index >= pnodes ? "left" : isLost(index) ? "lost" : "online",
        drained: this.drained.has(pnodeId(index)),
        capabilities: {
          cpuModel: "Ryzen 9 7950X",
          cores: 16,
          memoryBytes: 64_000_000_000n,
          gpus: [{ model: "RTX 4090" }],
        },
        limits: { cpus: 8, memoryBytes: 32_000_000_000n },
        load: 0.4 + 0.6 * uniformAt(this.#key, index + this.step * pnodes),
        memoryUsedBytes: BigInt(1_000_000_000 + index * 1_000_000),
        reliability: 0.9,
        temperatureCelsius: 55 + (index % 20),
        uptimeSeconds: 4_000,
      })),
      vnodes: this.#hosts.map((host, index) => ({
        session: sessionId,
        id: this.#name(index),
        pnode: pnodeId(host),
        epoch: BigInt(this.#epochs[index] as number),
        step: BigInt(this.step),
        phase: "computing",
        stepMs: 20 + 5 * uniformAt(this.#key, index + this.step),
      })),
    };
  }

  /** A network of nobody and nothing. */
  get isEmpty(): boolean {
    return this.#options.vnodes === 0;
  }

  sessions() {
    const past = Array.from({ length: this.#options.past ?? 0 }, (_, index) => ({
      ...this.session(),
      id: `gpt-00000000000${index}`,
      status: "done",
      step: BigInt(pastSteps),
      totalSteps: BigInt(pastSteps),
      final: BigInt(pastSteps),
      certificate: "",
      settings: {
        ...this.session().settings,
        assurance: "none",
        steps: BigInt(pastSteps),
        batch: batch << (index % 2),
        seed: BigInt(index + 2),
        learningRate: { schedule: index % 2 === 0 ? "constant" : "cosine", base: 0.001 * (index + 1) },
      },
      loss: this.#lossAt(pastSteps / (1 + 0.4 * index)),
      createdWallMs: BigInt(this.#begunMs - (index + 1) * 3_600_000),
      endedWallMs: BigInt(this.#begunMs - (index + 1) * 3_000_000),
    }));
    return this.isEmpty ? [] : [this.session(), ...past];
  }

  session() {
    return {
      id: sessionId,
      settings: {
        ...{ network: "gpt", dataset: "books", batch, steps: BigInt(stepsTotal), numerics: "native", seed: 1n },
        assurance: "sampled",
        learningRate: { schedule: "constant", base: 0.001 },
      },
      line: BigInt(this.step - (this.step % 20)),
      final: 40n,
      certificate:
        "sampled; final up to step 40: 50.0 % recomputed by trusted machines, 25.0 % by strangers, 25.0 % by nobody",
      createdWallMs: BigInt(this.#begunMs),
      status: this.suspended ? "suspended" : "running",
      step: BigInt(this.step),
      totalSteps: BigInt(stepsTotal),
      loss: this.#lossAt(this.step),
      samplesPerSecond: 300 + 40 * uniformAt(this.#key, this.step),
      stepsPerSecond: 10,
      vnodes: this.#options.vnodes,
    };
  }

  #phase(): number {
    return this.step % this.#options.lossEvery;
  }

  #lossAt(step: number): number {
    return 1.5 + 6 / (1 + step / 60) + 0.3 * uniformAt(this.#key, step);
  }

  #dice(sides: number): number {
    this.#chance += 1;
    return Math.floor(uniformAt(this.#key, 1_000_000 + this.#chance) * sides);
  }

  #emit(level: string, kind: string, message: string, about: Event): void {
    const sequence = BigInt(this.events.length + 1);
    this.events.push({ sequence, orchestrator: "one", wallMs: BigInt(Date.now()), level, kind, message, ...about });
  }
}

function vnodeId(index: number): string {
  return index % 2 === 0 ? `attention_${index / 2}` : `mlp_${(index - 1) / 2}`;
}

function pnodeId(index: number): string {
  return `pnode-${String(index).padStart(4, "0")}`;
}
