// How providers, their offers and their machines are written and shown.

import { fail } from "../../core/errors.ts";
import { duration } from "../../core/words/duration.ts";
import { plural } from "../../core/words/plural.ts";
import type { Provider, ProviderInstance, ProviderOffer } from "../../protocol/gen/dcnr/v1/provider_pb.ts";
import { parseBytes } from "../flags/quantities.ts";
import type { Output } from "./output.ts";
import { bytes } from "./progress.ts";

export const offerForm =
  "NAME,cores=N,memory=SIZE[,gpus=N][,gpu-memory=SIZE][,gpu-type=TYPE][,price=N][,region=NAME][,most=N][,boot=SECONDS][,spot]";

type OfferInit = Pick<ProviderOffer, "name"> & Partial<Omit<ProviderOffer, "$typeName" | "name">>;

export function parseOffer(text: string): OfferInit {
  const [name = "", ...parts] = text.split(",").map((part) => part.trim());
  const given = new Map(parts.map((part) => part.split("=", 2) as [string, string | undefined]));
  const wrong = (why: string) => fail("invalid_argument", `--offer ${name}: ${why}. It takes ${offerForm}`);
  const number = (field: string) => {
    const value = given.get(field);
    given.delete(field);
    if (value === undefined) return undefined;
    return value !== "" && Number.isFinite(Number(value))
      ? Number(value)
      : wrong(`${field} takes a number, not "${value}"`);
  };
  const size = (field: string) => {
    const value = given.get(field);
    given.delete(field);
    return value === undefined ? undefined : BigInt(parseBytes(value, `--offer ${name}: ${field}`));
  };
  const word = (field: string) => {
    const value = given.get(field);
    given.delete(field);
    return value;
  };
  const offer = {
    ...{
      cores: number("cores"),
      memoryBytes: size("memory"),
      gpus: number("gpus"),
      gpuMemoryBytes: size("gpu-memory"),
    },
    ...{ gpuType: word("gpu-type"), pricePerHour: number("price"), region: word("region"), most: number("most") },
    ...{ bootSeconds: number("boot"), spot: given.delete("spot") },
  };
  const [unknown] = given.keys();
  if (unknown !== undefined) wrong(`it knows no "${unknown}"`);
  if (offer.cores === undefined || offer.memoryBytes === undefined) wrong("cores and memory are needed");
  for (const whole of [offer.cores, offer.gpus, offer.most])
    if (whole !== undefined && !(Number.isInteger(whole) && whole >= 0)) wrong(`${whole} is no whole number`);
  return {
    name,
    ...(Object.fromEntries(Object.entries(offer).filter(([, value]) => value !== undefined)) as Partial<OfferInit>),
  };
}

/** `--set NAME=VALUE`, several. */
export function parseParameters(texts: readonly string[]): Record<string, string> {
  return Object.fromEntries(
    texts.map((text) => {
      const cut = text.indexOf("=");
      if (cut <= 0) fail("invalid_argument", `--set takes NAME=VALUE, not "${text}"`);
      return [text.slice(0, cut), text.slice(cut + 1)];
    }),
  );
}

export function showProviders(out: Output, providers: readonly Provider[]): void {
  if (providers.length === 0) {
    out.advice("No providers: machines come when their owners lend them. See dcnr provider add --help");
    return;
  }
  out.table(
    [
      { title: "PROVIDER" },
      { title: "KIND" },
      { title: "MACHINES", align: "right" },
      { title: "AN HOUR", align: "right" },
      { title: "SPENT", align: "right" },
      { title: "STATE", shrink: true },
    ],
    providers.map((one) => [
      one.name,
      one.kind,
      `${one.instances.filter(({ status }) => status !== "ended").length} of ${one.limits?.least ?? 0}-${one.limits?.most ?? 0}`,
      bounded(one.pricePerHour, one.limits?.budgetPerHour ?? 0),
      bounded(one.spent, one.limits?.budgetTotal ?? 0),
      one.removing ? "is being removed" : one.problem || "well",
    ]),
  );
  for (const one of providers) showOffers(out, one.offers, `${one.name}: `);
  const instances = providers.flatMap(({ name, instances: own }) => own.map((one) => ({ name, one })));
  if (instances.length > 0) showInstances(out, instances);
}

function bounded(value: number, most: number): string {
  return most > 0 ? `${value.toFixed(2)} of ${most}` : value.toFixed(2);
}

export function showOffers(out: Output, offers: readonly ProviderOffer[], before = ""): void {
  for (const offer of offers) {
    const gpus = offer.gpus > 0 ? `, ${plural(offer.gpus, "GPU")}` : "";
    const where = offer.region ? `, in ${offer.region}` : "";
    const blocked = offer.blocked ? `; not used for now: ${offer.blocked}` : "";
    out.line(
      `${before}${offer.name}: ${plural(offer.cores, "core")}, ${bytes(Number(offer.memoryBytes))}${gpus}, ${offer.pricePerHour} an hour${where}` +
        `${offer.spot ? ", may be taken away" : ""}, up to ${offer.most}, there in ${duration(offer.bootSeconds)}${blocked}`,
    );
  }
}

function showInstances(
  out: Output,
  instances: readonly { readonly name: string; readonly one: ProviderInstance }[],
): void {
  out.table(
    [
      { title: "MACHINE" },
      { title: "PROVIDER" },
      { title: "OFFER" },
      { title: "STATUS" },
      { title: "PNODE", shrink: true },
      { title: "DETAIL", shrink: true },
    ],
    instances.slice(0, 50).map(({ name, one }) => [one.id, name, one.offer, one.status, one.pnode, one.detail]),
  );
}
