// What a PNode says of itself: to orchestrators when it registers and with every heartbeat, to other members, and to people.

import { answerBits, bits } from "../core/bits.ts";
import type { Facts } from "../membership/member.ts";
import type { Links } from "../peer/links.ts";
import { protocolMajor, protocolMinor } from "../protocol/network.ts";
import type { Relayed } from "../relay/relay.ts";
import type { Attachment } from "./attachment.ts";
import type { Autonomy } from "./autonomy/autonomy.ts";
import { type Hours, parseHours } from "./hours.ts";
import type { PNodeDependencies, PNodeOptions } from "./options.ts";
import type { ConductorLoad } from "./serving/conductor-options.ts";
import type { Servings } from "./serving/servings.ts";
import type { Training } from "./training/training.ts";
import type { Whereabouts } from "./whereabouts.ts";

export interface Readings {
  readonly attached: boolean;
  /** Absent if it does not relay. */
  readonly relayed?: Relayed | undefined;
  /** Messages kept for neighbours, in memory. */
  readonly retainedBytes: number;
  /** What its VNodes have waited for samples of their datasets, added up. */
  readonly dataWaitMs: number;
  /** Messages that it has stored so that others can repeat what followed from them, since it started. */
  readonly lockerBytes: number;
  /** Of models whose heads are here: positions that were not computed again, and guesses of tokens. */
  readonly conducted?: readonly { readonly replica: string; readonly load: ConductorLoad }[];
  readonly vnodes: readonly {
    readonly session: string;
    readonly vnode: string;
    readonly step: bigint;
    readonly phase: string;
    /** Of computing in the last step. */
    readonly stepMs: number;
  }[];
}

/** What is reported about; all of it is asked when somebody wants to know. */
export interface ReportedParts {
  readonly training: Training;
  readonly servings: Servings;
  readonly autonomy: Autonomy;
  readonly whereabouts: Whereabouts;
  readonly links: Links;
  readonly attachment: Attachment;
}

export class SelfReport {
  readonly #options: PNodeOptions;
  readonly #machine: Pick<PNodeDependencies, "measure" | "localHour" | "lends">;
  readonly #incarnation: string;
  readonly #hours: Hours;
  readonly #parts: () => ReportedParts;
  #capabilities: PNodeOptions["capabilities"];
  #limits: PNodeOptions["limits"];
  /** It hands over what it hosts: nothing new is to come. */
  leaving = false;

  constructor(
    options: PNodeOptions,
    machine: Pick<PNodeDependencies, "measure" | "localHour" | "lends">,
    incarnation: string,
    parts: () => ReportedParts,
  ) {
    this.#options = options;
    this.#machine = machine;
    this.#incarnation = incarnation;
    this.#hours = parseHours(options.limits?.hours ?? "");
    this.#parts = parts;
    this.#capabilities = options.capabilities;
    this.#limits = options.limits;
  }

  /** The classes in which this machine computes. */
  get numerics() {
    return this.#capabilities.numerics ?? [];
  }

  measured(gflops: number, numerics: readonly { readonly engine: string; readonly class: string }[]): void {
    this.#capabilities = { ...this.#capabilities, gflops, numerics: [...numerics] };
  }

  classOf(engine: string): string | undefined {
    return this.#capabilities.numerics?.find((one) => one.engine === engine)?.class;
  }

  measuredLine(bandwidthBytesPerSecond: number): void {
    this.#capabilities = { ...this.#capabilities, bandwidthBytesPerSecond };
  }

  /** Whether that is news. */
  lendsMemory(bytes: number): boolean {
    const memoryBytes = BigInt(bytes);
    if (memoryBytes === this.#limits?.memoryBytes) return false;
    this.#limits = { ...this.#limits, memoryBytes };
    return true;
  }

  registration() {
    const { training, servings, whereabouts, autonomy } = this.#parts();
    const { name, software, owner, region, provider, pricePerHour } = this.#options;
    const learning = training.hosts.all().map(({ assignment: { session, vnode, epoch } }) => ({
      session,
      vnode,
      epoch: BigInt(epoch),
    }));
    const examinedMsAgo = this.#options.examinedMsAgo?.();
    return {
      ...{ protocolMajor, protocolMinor, software, name },
      ...(examinedMsAgo === undefined ? {} : { examinedMsAgo }),
      capabilities: this.#capabilities,
      hosted: [...learning, ...servings.hosted()],
      incarnation: this.#incarnation,
      routes: whereabouts.routes,
      ...whereabouts.offer(),
      limits: this.#limits ?? {},
      owner: owner ?? "",
      region: region ?? "",
      provider: provider ?? "",
      pricePerHour: pricePerHour ?? 0,
      closed: !this.#isLent(),
      invite: this.#options.invite ?? "",
      bits: this.#options.bits ?? bits,
      answerBits: this.#options.answerBits ?? answerBits,
      chartered: autonomy.sessions,
    };
  }

  heartbeat() {
    const { training, servings, whereabouts, autonomy, links } = this.#parts();
    const { load = 0, temperatureCelsius = 0, memoryUsedBytes, gpus = [] } = this.#machine.measure?.() ?? {};
    return {
      vnodes: [...training.hosts.all().map((host) => host.progress()), ...servings.progress()],
      load,
      temperatureCelsius,
      gpus: gpus.map(({ memoryUsedBytes: used, ...rest }) => ({
        ...rest,
        ...(used !== undefined && { memoryUsedBytes: BigInt(Math.round(used)) }),
      })),
      memoryUsedBytes: BigInt(memoryUsedBytes ?? training.retention.memoryBytes),
      links: links.readings(),
      accepting: !this.leaving && this.#isLent(),
      ...whereabouts.relaying(),
      crews: autonomy.reports(),
    };
  }

  /** What other members are told of this machine. */
  facts(): Facts {
    const { name, region = "" } = this.#options;
    const { cores = 0, memoryBytes = 0n, gflops = 0, numerics = [] } = this.#capabilities;
    const { whereabouts } = this.#parts();
    const roles: Facts["roles"] = whereabouts.relayed === undefined ? ["pnode"] : ["pnode", "relay"];
    return {
      ...{ name, region, cores, gflops, roles },
      routes: whereabouts.routes,
      memoryBytes: Number(memoryBytes),
      numerics: numerics.map((one) => one.class ?? ""),
      load: this.#machine.measure?.().load ?? 0,
    };
  }

  /** What is wrong, one sentence each. `calling` is the orchestrator that is tried while none is attached to. */
  problems(calling: string): string[] {
    const { attachment, training, whereabouts } = this.#parts();
    const problems: string[] = [];
    if (attachment.attached) problems.push(...whereabouts.problems());
    else problems.push(`not attached to an orchestrator: ${attachment.failure?.message ?? `trying ${calling}`}`);
    if (training.retention.full)
      problems.push("retained messages have reached their bound: VNodes wait for checkpoints");
    for (const host of training.hosts.all())
      if (host.failed) problems.push(`VNode ${host.assignment.vnode} failed: ${host.progress().detail}`);
    return problems;
  }

  readings(dataWaitMs: number): Readings {
    const { attachment, training, whereabouts, servings } = this.#parts();
    return {
      conducted: servings.conducted(),
      attached: attachment.attached,
      relayed: whereabouts.relayed,
      retainedBytes: training.retention.memoryBytes,
      dataWaitMs,
      lockerBytes: training.lockerBytes,
      vnodes: training.hosts.all().map((host) => host.progress()),
    };
  }

  #isLent(): boolean {
    const { localHour, lends } = this.#machine;
    return this.#hours(localHour?.() ?? 0) && (lends?.() ?? true);
  }
}
