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

export interface FakeFleetOptions {
  readonly pnodes: number;
  readonly vnodes: number;
  /** Steps between losses of a PNode; 0 for none. */
  readonly lossEvery: number;
}

export class FakeFleet {
  readonly events: Event[] = [];
  readonly #options: FakeFleetOptions;
  readonly #key = randomKey("fake fleet");
  readonly #hosts: number[];
  readonly #epochs: number[];
  #lost = -1;
  #chance = 0;
  step = 0;
  suspended = false;

  constructor(options: FakeFleetOptions) {
    this.#options = options;
    this.#hosts = Array.from({ length: options.vnodes }, (_, index) => index % options.pnodes);
    this.#epochs = this.#hosts.map(() => 1);
    this.#emit("info", "session.started", `session ${sessionId} starts`, { session: sessionId });
  }

  network(): MessageInitShape<typeof GetNetworkResponseSchema> {
    const ids = this.#hosts.map((_, index) => vnodeId(index));
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
    if (this.suspended) return;
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
      const message = `VNode ${vnodeId(index)} goes from ${pnodeId(host)} to ${pnodeId(next)}: most room`;
      const about = { session: sessionId, vnode: vnodeId(index), pnode: pnodeId(next), step: BigInt(this.step) };
      this.#emit("info", "vnode.placed", message, about);
    });
  }

  metrics(fromStep: number) {
    const steps = Array.from({ length: Math.max(0, this.step - fromStep) }, (_, index) => fromStep + index + 1);
    return steps.map((step) => ({ name: "loss", step: BigInt(step), value: this.#lossAt(step), session: sessionId }));
  }

  frame(): Frame {
    const isLost = (index: number) => index === this.#lost && this.#options.lossEvery > 0 && this.#phase() < 12;
    const { pnodes } = this.#options;
    return {
      status: {
        orchestrators: ["one"],
        pnodesOnline: pnodes,
        cores: pnodes * 8,
        memoryBytes: BigInt(pnodes) * 32_000_000_000n,
        sessions: [this.session()],
        history: Array.from({ length: historyPoints }, (_, index) => ({
          wallMs: BigInt(index * 10_000),
          load: 0.5 + 0.3 * uniformAt(this.#key, index),
        })),
      },
      pnodes: Array.from({ length: pnodes }, (_, index) => ({
        id: pnodeId(index),
        name: `machine-${index + 1}`,
        status: isLost(index) ? "lost" : "online",
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
        id: vnodeId(index),
        pnode: pnodeId(host),
        epoch: BigInt(this.#epochs[index] as number),
        step: BigInt(this.step),
        phase: "computing",
        stepMs: 20 + 5 * uniformAt(this.#key, index + this.step),
      })),
    };
  }

  session() {
    return {
      id: sessionId,
      settings: { network: "gpt", dataset: "books", batch, steps: BigInt(stepsTotal), numerics: "native", seed: 1n },
      status: this.suspended ? "suspended" : "running",
      step: BigInt(this.step),
      totalSteps: BigInt(stepsTotal),
      loss: this.#lossAt(this.step),
      samplesPerSecond: 300 + 40 * uniformAt(this.#key, this.step),
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
