// PNodes on machines that ssh reaches with a key of the operator's. Which hosts, as whom and with which key file stands in
// the settings; the key itself stays in its file, and hosts that are not known to ssh are refused.

import { fail, messageOf } from "../core/errors.ts";
import { checkShell, listOn, logsOn, type MachineShell, shapeOf, startOn, stopOn } from "./machine-shell.ts";
import {
  findings,
  type Offer,
  type Provider,
  type ProviderSettings,
  type ProviderTools,
  type Seen,
} from "./provider.ts";

const bootSeconds = 20;
/** Of a program on the way to far machines. */
const connectSeconds = 10;

export function openSsh(settings: ProviderSettings, tools: ProviderTools): Provider {
  const hosts = (settings.parameters["hosts"] ?? "").split(",").filter(Boolean);
  const shells = new Map(hosts.map((host) => [host, shellAt(host, settings, tools)]));
  const shellOf = (host: string) =>
    shells.get(host) ?? fail("not_found", `provider ${settings.provider} has no host ${host} any more`);
  /** One host that does not answer must not hide what runs on the others, nor pass for one on which nothing runs. */
  const list = async (): Promise<Seen[]> => {
    const lists = await Promise.all(
      Array.from(shells, async ([host, shell]) =>
        (await listOn(shell, settings)).map((one) => ({ ...one, handle: `${host} ${one.handle}` })),
      ),
    );
    return lists.flat();
  };
  const onHost = (seen: Seen): { host: string; seen: Seen } => {
    const [host = "", handle = ""] = seen.handle.split(" ");
    return { host, seen: { ...seen, handle } };
  };
  return {
    test: () => findings(...Array.from(shells.values(), (shell) => () => checkShell(shell))),
    offers: async () => {
      const found = await Promise.all(Array.from(shells, ([host, shell]) => offersOf(host, shell, settings)));
      return found.flat();
    },
    start: (offer, wanted) => startOn(shellOf(offer.name.slice(offer.name.indexOf("@") + 1)), settings, offer, wanted),
    list,
    stop: async (seen, hurry = false) => {
      for (const [host, own] of Map.groupBy(seen.map(onHost), (one) => one.host))
        await stopOn(
          shellOf(host),
          settings,
          own.map((one) => one.seen),
          hurry,
        );
    },
    logs: (one) => {
      const { host, seen } = onHost(one);
      return logsOn(shellOf(host), settings, seen);
    },
  };
}

/** Every host as it was described, or as it describes itself. */
async function offersOf(host: string, shell: MachineShell, { offers }: ProviderSettings): Promise<Offer[]> {
  if (offers.length > 0) return offers.map((offer) => ({ ...offer, name: `${offer.name}@${host}` }));
  const plain = { gpus: 0, gpuMemoryBytes: 0, gpuType: "", pricePerHour: 0, region: "", spot: false };
  return [{ ...(await shapeOf(shell)), ...plain, name: `whole@${host}`, most: 1, bootSeconds }];
}

function shellAt(host: string, { parameters }: ProviderSettings, tools: ProviderTools): MachineShell {
  const file = (name: string, option: string) => (parameters[name] ? ["-o", `${option}=${parameters[name]}`] : []);
  const args = [
    // Never asks anybody, and never believes a host that it does not know.
    ...["-T", "-o", "BatchMode=yes", "-o", "StrictHostKeyChecking=yes", "-o", `ConnectTimeout=${connectSeconds}`],
    ...file("identity-file", "IdentityFile"),
    ...file("known-hosts", "UserKnownHostsFile"),
    ...(parameters["port"] ? ["-p", parameters["port"]] : []),
    ...(parameters["user"] ? ["-l", parameters["user"]] : []),
    // What follows is never taken for an option, whatever it is called.
    ...["--", host, "sh -s"],
  ];
  return {
    place: `host ${host}`,
    program: parameters["program"] ?? "dcnr",
    folder: parameters["folder"] ?? "~/.dcnr-provided",
    flags: [],
    run: async (script) => {
      const result = await tools.command("ssh", args, { input: script }).catch((error: unknown) => {
        throw fail("failed_precondition", `ssh cannot be used: ${messageOf(error)}`, error);
      });
      // ssh's own failures have this code; those of the script have their own.
      if (result.code === 255)
        fail("unavailable", `host ${host} cannot be reached: ${sshProblem(result.err)} (try: ssh ${host} true)`);
      return result;
    },
  };
}

function sshProblem(text: string): string {
  return (
    text
      .trim()
      .split("\n")
      .at(-1)
      ?.replace(/^ssh: /, "") || "ssh says nothing more"
  );
}
