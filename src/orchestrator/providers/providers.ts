// Providers as people add, test, see and remove them. Adding one lets an orchestrator start programs elsewhere: what may be
// said is checked by the kind, and kinds are those that an orchestrator was started for.

import type { MessageInitShape } from "@bufbuild/protobuf";
import { fail } from "../../core/errors.ts";
import { wholeOf } from "../../core/whole.ts";
import type {
  AddProviderRequest,
  ProviderLimits,
  ProviderOffer,
  ProviderOfferSchema,
  ProviderSchema,
  TestProviderResponseSchema,
} from "../../protocol/gen/dcnr/v1/provider_pb.ts";
import { checkSettings } from "../../providers/kinds.ts";
import { findings, type Offer } from "../../providers/provider.ts";
import type { Context } from "../context.ts";
import { type InstanceRecord, isThere, type ProviderBounds, type ProviderRecord } from "../records/providers.ts";
import { key, prefix } from "../records/store-keys.ts";
import { isBlocked, nothingLearned } from "./learned.ts";
import type { ProviderCare } from "./provider-care.ts";
import { spentBy } from "./scale-view.ts";

const providersMost = 50;
const machinesMost = 10_000;
const idleMsUsual = 5 * 60_000;
const coolDownMsUsual = 2 * 60_000;
const bootSecondsUsual = 60;

export class Providers {
  readonly #context: Context;
  readonly #care: ProviderCare;

  constructor(context: Context, care: ProviderCare) {
    this.#context = context;
    this.#care = care;
  }

  async add(request: AddProviderRequest): Promise<ProviderRecord> {
    const { mirror, world, events } = this.#context;
    const { name, kind, parameters } = request;
    const offers = request.offers.map(offerFrom);
    checkSettings(this.#care.settingsOf({ name, kind, parameters, offers }));
    this.#checkKind(kind);
    if (mirror.under(prefix.providers).length >= providersMost)
      fail("resource_exhausted", `there are ${providersMost} providers already: remove one`);
    const fresh: ProviderRecord = {
      ...{ name, kind, parameters: { ...parameters }, offers, found: [], limits: boundsOf(request.limits) },
      createdWallMs: world.clock.wallMs(),
      ...{ spent: 0, countedLast: "", learned: {}, lastStartWallMs: 0 },
    };
    const { record, written } = await mirror.update(key.provider(name), (current) => (current ? undefined : fresh));
    if (!written || !record)
      return fail("already_exists", `there is a provider ${name}: remove it first, or choose another name`);
    events.emit("info", "provider.added", `provider ${name} (${kind}) is added`);
    return record;
  }

  /** Says at once what could not be done here, whoever of several orchestrators is asked. */
  #checkKind(kind: string): void {
    if (!this.#care.may(kind))
      fail(
        "failed_precondition",
        `this orchestrator was not started for providers of kind ${kind}: dcnr orchestrator --providers ${kind}`,
      );
  }

  async test(name: string): Promise<MessageInitShape<typeof TestProviderResponseSchema>> {
    const record = await this.#find(name);
    this.#checkKind(record.kind);
    const provider = this.#care.open(record);
    const found = await provider.test();
    if (found.some(({ isWell }) => !isWell)) return { findings: [...found] };
    let offers: readonly Offer[] = [];
    const more = await findings(async () => {
      offers = await provider.offers();
      if (offers.length === 0) fail("not_found", "it offers nothing: declare a machine with --offer");
      return `offers: ${offers.map((one) => one.name).join(", ")}`;
    });
    return { findings: [...found, ...more], offers: offers.map((offer) => offerView(offer, undefined, 0)) };
  }

  async remove(name: string): Promise<void> {
    const { mirror, events } = this.#context;
    const record = await this.#find(name);
    await mirror.update(key.provider(record.name), (current) => current && { ...current, removing: true as const });
    events.emit("info", "provider.removing", `provider ${name} is to end: its machines hand over and go`);
  }

  async #find(name: string): Promise<ProviderRecord> {
    const { mirror } = this.#context;
    const record = /^[a-z][a-z0-9-]{0,19}$/.test(name) ? await mirror.read(key.provider(name)) : undefined;
    return record ?? fail("not_found", `there is no provider "${name.slice(0, 40)}": dcnr provider list shows them`);
  }

  list(): MessageInitShape<typeof ProviderSchema>[] {
    const { mirror } = this.#context;
    return mirror
      .under(prefix.providers)
      .sort((a, b) => (a.name < b.name ? -1 : 1))
      .map((record) => this.view(record));
  }

  view(record: ProviderRecord): MessageInitShape<typeof ProviderSchema> {
    const { mirror, world } = this.#context;
    const nowMs = world.clock.wallMs();
    const instances = mirror.under(prefix.instancesOf(record.name));
    const { limits } = record;
    const offers = record.found.length > 0 ? record.found : record.offers;
    return {
      name: record.name,
      kind: record.kind,
      parameters: { ...record.parameters },
      offers: offers.map((offer) => offerView(offer, record, nowMs)),
      limits: {
        ...{ least: limits.least, most: limits.most },
        ...{ budgetPerHour: limits.budgetPerHour, budgetTotal: limits.budgetTotal },
        ...{ idleSeconds: limits.idleMs / 1000, coolDownSeconds: limits.coolDownMs / 1000 },
      },
      spent: spentBy(record, instances, nowMs),
      pricePerHour: instances.filter(isThere).reduce((sum, one) => sum + one.offer.pricePerHour, 0),
      problem: record.problem ?? this.#idleReason(record),
      removing: record.removing === true,
      instances: instances.sort((a, b) => b.wantedWallMs - a.wantedWallMs).map(instanceView),
    };
  }

  /** Why nothing is fetched, where that is known here. */
  #idleReason({ name, kind }: ProviderRecord): string {
    if (!this.#care.may(kind)) return `this orchestrator does not run providers of kind ${kind}; another one must`;
    const unmet = Array.from(this.#care.unmet).find(([, why]) => why.includes(`provider ${name} `));
    return unmet ? `nothing more is fetched for ${unmet[0]}: ${unmet[1]}` : "";
  }
}

function boundsOf(limits: ProviderLimits | undefined): ProviderBounds {
  const {
    least = 0,
    most = 1,
    budgetPerHour = 0,
    budgetTotal = 0,
    idleSeconds = 0,
    coolDownSeconds = 0,
  } = limits ?? {};
  for (const [what, value] of Object.entries({ budgetPerHour, budgetTotal, idleSeconds, coolDownSeconds }))
    if (!Number.isFinite(value) || value < 0) fail("invalid_argument", `${what} is ${value}: 0 or more`);
  const largest = most || 1;
  if (largest > machinesMost) fail("invalid_argument", `at most ${machinesMost} machines of a provider, not ${most}`);
  if (least > largest) fail("invalid_argument", `at least ${least} machines and at most ${largest}: which of them?`);
  return {
    ...{ least, most: largest, budgetPerHour, budgetTotal },
    idleMs: idleSeconds * 1000 || idleMsUsual,
    coolDownMs: coolDownSeconds * 1000 || coolDownMsUsual,
  };
}

function offerFrom(offer: ProviderOffer): Offer {
  const { name, cores, gpus, gpuType, pricePerHour, region, spot, most, bootSeconds } = offer;
  return {
    ...{ name, cores, gpus, gpuType, pricePerHour, region, spot, most: most || 1 },
    ...{ memoryBytes: wholeOf(offer.memoryBytes), gpuMemoryBytes: wholeOf(offer.gpuMemoryBytes) },
    bootSeconds: bootSeconds || bootSecondsUsual,
  };
}

function offerView(
  offer: Offer,
  record: ProviderRecord | undefined,
  nowMs: number,
): MessageInitShape<typeof ProviderOfferSchema> {
  const learned = record?.learned[offer.name] ?? nothingLearned;
  const { memoryBytes, gpuMemoryBytes, ...rest } = offer;
  const blocked = isBlocked(learned, nowMs);
  return {
    ...rest,
    ...{ memoryBytes: BigInt(memoryBytes), gpuMemoryBytes: BigInt(gpuMemoryBytes) },
    bootSeconds: (learned.bootMs ?? offer.bootSeconds * 1000) / 1000,
    ...(blocked && { blocked: learned.why, blockedUntilWallMs: BigInt(Math.round(learned.blockedUntilWallMs)) }),
  };
}

function instanceView(one: InstanceRecord) {
  const { id, offer, status, pnode, detail, wantedWallMs, joinedWallMs, endedWallMs } = one;
  return {
    ...{ id, offer: offer.name, status, pnode: pnode ?? "", detail, pricePerHour: offer.pricePerHour },
    sinceWallMs: BigInt(Math.round(endedWallMs || joinedWallMs || wantedWallMs)),
  };
}
