// The kinds of providers, and what each may be told. Settings come from whoever may administer the network, over the API:
// every value is held to a pattern, nothing of it ever becomes a shell's text unquoted, and secrets are paths of files that
// lie on the orchestrator's machine already.

import { fail } from "../core/errors.ts";
import { openDocker } from "./docker.ts";
import { openKubernetes } from "./kubernetes.ts";
import { openProcess } from "./process.ts";
import type { Offer, Provider, ProviderSettings, ProviderTools } from "./provider.ts";
import { openRay } from "./ray.ts";
import { openSlurm } from "./slurm.ts";
import { openSsh } from "./ssh.ts";

interface Parameter {
  readonly pattern: RegExp;
  /** For people: what it takes. */
  readonly form: string;
  readonly isNeeded?: true;
}

interface Kind {
  readonly parameters: Readonly<Record<string, Parameter>>;
  readonly open: (settings: ProviderSettings, tools: ProviderTools) => Provider;
}

const path: Parameter = { pattern: /^\/[\w./@+-]{1,400}$/, form: "an absolute path" };
const word: Parameter = { pattern: /^[A-Za-z0-9][\w.-]{0,99}$/, form: "a name of letters, digits, dots, dashes" };
const folder: Parameter = { pattern: /^(~|\/[\w.@+-]+)(\/[\w.@+-]+){0,40}$/, form: "a folder: /PATH or ~/PATH" };
/** The program may lie anywhere, but it is called dcnr: this is no way to start another one. */
const program: Parameter = { pattern: /^(\/[\w./@+-]{0,400}\/)?dcnr(\.js)?$/, form: "dcnr, or its absolute path" };
const image: Parameter = { pattern: /^[a-z0-9][\w./:@-]{0,254}$/, form: "an image's name" };
const networks: Parameter = { pattern: /^[0-9a-fA-F.:/,]{2,400}$/, form: "networks such as 10.0.0.0/8,192.168.0.0/16" };

const kinds: Readonly<Record<string, Kind>> = {
  process: { parameters: { program, folder }, open: openProcess },
  docker: { parameters: { socket: path, image, network: word, reach: networks }, open: openDocker },
  slurm: {
    parameters: {
      ...{ program, folder, partition: word, account: word, qos: word },
      time: { pattern: /^[\d:-]{1,20}$/, form: "a time limit as sbatch takes it, such as 12:00:00" },
    },
    open: openSlurm,
  },
  kubernetes: {
    parameters: {
      ...{ kubeconfig: path, image, reach: networks },
      context: { pattern: /^[\w.@:/-]{1,200}$/, form: "a context's name" },
      namespace: { pattern: /^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$/, form: "a namespace's name" },
      "node-selector": { pattern: /^[\w./-]+=[\w.-]*(,[\w./-]+=[\w.-]*){0,20}$/, form: "KEY=VALUE,..." },
    },
    open: openKubernetes,
  },
  ssh: {
    parameters: {
      ...{ program, folder, "identity-file": path, "known-hosts": path, user: word },
      hosts: { pattern: /^[A-Za-z0-9][\w.-]*(,[A-Za-z0-9][\w.-]*){0,999}$/, form: "HOST,HOST,...", isNeeded: true },
      port: { pattern: /^\d{1,5}$/, form: "a port" },
    },
    open: openSsh,
  },
  ray: {
    parameters: {
      program,
      address: {
        pattern: /^https?:\/\/[\w.:[\]-]{1,200}\/?$/,
        form: "the dashboard's address, http://HOST:8265",
        isNeeded: true,
      },
      "token-file": { ...path, isNeeded: true },
    },
    open: openRay,
  },
};

export const providerKinds: readonly string[] = Object.keys(kinds);

export function openProvider(settings: ProviderSettings, tools: ProviderTools): Provider {
  return kindOf(settings.kind).open(settings, tools);
}

/** Fails with a sentence for anything that is not exactly what the kind takes. */
export function checkSettings({ kind, provider, parameters, offers }: ProviderSettings): void {
  const { parameters: known } = kindOf(kind);
  if (!/^[a-z][a-z0-9-]{0,19}$/.test(provider))
    fail("invalid_argument", `a provider's name has up to 20 small letters, digits and dashes, not "${provider}"`);
  for (const [name, value] of Object.entries(parameters)) {
    const parameter = Object.hasOwn(known, name) ? known[name] : undefined;
    if (!parameter)
      fail(
        "invalid_argument",
        `providers of kind ${kind} take ${Object.keys(known).join(", ")}; not "${name.slice(0, 40)}"`,
      );
    if (!parameter.pattern.test(value) || value.includes(".."))
      fail("invalid_argument", `${name} takes ${parameter.form}, not "${value.slice(0, 100)}"`);
  }
  for (const [name, { isNeeded, form }] of Object.entries(known))
    if (isNeeded && parameters[name] === undefined)
      fail("invalid_argument", `providers of kind ${kind} need ${name}: --set ${name}=... (${form})`);
  if (offers.length > 50) fail("invalid_argument", `a provider has at most 50 offers, not ${offers.length}`);
  const names = new Set<string>();
  for (const offer of offers) {
    checkOffer(offer);
    if (names.has(offer.name)) fail("invalid_argument", `two offers are called ${offer.name}`);
    names.add(offer.name);
  }
}

function checkOffer(offer: Offer): void {
  const wrong = (what: string) => fail("invalid_argument", `offer ${offer.name.slice(0, 40)}: ${what}`);
  const within = (value: number, least: number, most: number) =>
    Number.isFinite(value) && value >= least && value <= most;
  if (!/^[a-z0-9][a-z0-9-]{0,39}$/.test(offer.name)) wrong("a name has small letters, digits and dashes");
  if (!within(offer.cores, 1, 4_096) || !Number.isInteger(offer.cores)) wrong(`cores is ${offer.cores}: 1 to 4096`);
  if (!within(offer.memoryBytes, 128 * 2 ** 20, 2 ** 50)) wrong("memory is 128MB or more");
  if (!within(offer.gpus, 0, 64) || !Number.isInteger(offer.gpus)) wrong(`gpus is ${offer.gpus}: 0 to 64`);
  if (!within(offer.gpuMemoryBytes, 0, 2 ** 50)) wrong("gpu-memory is not negative");
  if (!within(offer.pricePerHour, 0, 1e6)) wrong(`price is ${offer.pricePerHour}: 0 or more`);
  if (!within(offer.most, 1, 10_000) || !Number.isInteger(offer.most)) wrong(`most is ${offer.most}: 1 to 10000`);
  if (!within(offer.bootSeconds, 1, 86_400)) wrong(`boot is ${offer.bootSeconds} s: 1 to 86400`);
  if (!/^[\w.-]{0,60}$/.test(offer.region)) wrong("a region has letters, digits, dots and dashes");
  if (!/^[\w./-]{0,100}$/.test(offer.gpuType)) wrong("a GPU's type has letters, digits, dots, dashes and slashes");
}

function kindOf(kind: string): Kind {
  const found = Object.hasOwn(kinds, kind) ? kinds[kind] : undefined;
  return (
    found ??
    fail("invalid_argument", `there is no kind of provider "${kind.slice(0, 40)}": ${providerKinds.join(", ")}`)
  );
}
