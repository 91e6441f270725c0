// PNodes as containers of a Docker engine, by the engine's own interface over its socket: an image of the operator's choice,
// run as a user without rights, on a file system that cannot be written but for the PNode's own folder.

import { fail, hasCode, messageOf } from "../core/errors.ts";
import { joinWords, linkVariable } from "./join-command.ts";
import {
  findings,
  type HttpRequest,
  isInstance,
  type Offer,
  type Provider,
  type ProviderSettings,
  type ProviderTools,
  type Seen,
} from "./provider.ts";

const apiVersion = "v1.41";
const bootSeconds = 20;
const processesMost = 512;
/** As the image's (deploy/Dockerfile). */
const user = "10001";
const folder = "/var/lib/dcnr";

interface Container {
  readonly Id: string;
  readonly State: string;
  readonly Status: string;
  readonly Labels: Readonly<Record<string, string>>;
}

export function openDocker(settings: ProviderSettings, tools: ProviderTools): Provider {
  const { parameters, cluster, provider } = settings;
  const socketPath = parameters["socket"] ?? "/var/run/docker.sock";
  const image = parameters["image"] ?? "dcnr";
  const call = async <T>(method: HttpRequest["method"], path: string, body?: unknown): Promise<T> => {
    const url = `http://docker/${apiVersion}${path}`;
    const { status, text } = await tools.http({
      method,
      url,
      socketPath,
      timeoutMs: 60_000,
      ...(body ? { body } : {}),
    });
    if (status >= 400 && status !== 404) fail("unavailable", `the Docker engine refuses: ${messageIn(text) || status}`);
    if (status === 404) fail("not_found", messageIn(text) || `the Docker engine knows no ${path}`);
    return (text === "" ? undefined : json(text)) as T;
  };
  const filters = encodeURIComponent(
    JSON.stringify({ label: [`dcnr.cluster=${cluster}`, `dcnr.provider=${provider}`] }),
  );
  const containers = () => call<readonly Container[]>("GET", `/containers/json?all=true&filters=${filters}`);
  const offers = async (): Promise<readonly Offer[]> => {
    if (settings.offers.length > 0) return settings.offers;
    const { NCPU, MemTotal } = await call<{ NCPU: number; MemTotal: number }>("GET", "/info");
    const plain = { gpus: 0, gpuMemoryBytes: 0, gpuType: "", pricePerHour: 0, region: "", spot: false };
    return [{ name: "whole", cores: NCPU, memoryBytes: Math.floor(MemTotal * 0.8), ...plain, most: 1, bootSeconds }];
  };
  return {
    test: () =>
      findings(
        async () => {
          const { ServerVersion, NCPU } = await call<{ ServerVersion: string; NCPU: number }>("GET", "/info");
          return `Docker ${ServerVersion} answers at ${socketPath}, with ${NCPU} cores`;
        },
        async () => {
          await call("GET", `/images/${encodeURIComponent(image)}/json`).catch((error: unknown) =>
            fail(
              "not_found",
              `the engine has no image ${image}: build it with docker build -f deploy/Dockerfile -t ${image} .`,
              error,
            ),
          );
          return `image ${image} is there`;
        },
      ),
    offers,
    start: async (offer, wanted) => {
      for (const one of wanted) {
        const name = `dcnr-${cluster}-${provider}-${one.instance}`;
        const { Id } = await call<{ Id: string }>("POST", `/containers/create?name=${encodeURIComponent(name)}`, {
          Image: image,
          User: user,
          Cmd: [...joinWords(settings, offer, one, flagsOf(parameters)), "--dir", `${folder}/state`],
          Env: [`${linkVariable}=${one.link}`],
          Labels: { "dcnr.cluster": cluster, "dcnr.provider": provider, "dcnr.instance": one.instance },
          StopSignal: "SIGTERM",
          HostConfig: {
            ReadonlyRootfs: true,
            Tmpfs: { "/tmp": "", [folder]: `uid=${user}` },
            CapDrop: ["ALL"],
            SecurityOpt: ["no-new-privileges"],
            // What the process needs beside what it lends.
            Memory: offer.memoryBytes + 512 * 2 ** 20,
            NanoCpus: offer.cores * 1e9,
            PidsLimit: processesMost,
            ...(parameters["network"] ? { NetworkMode: parameters["network"] } : {}),
            ...(offer.gpus > 0
              ? { DeviceRequests: [{ Driver: "nvidia", Count: offer.gpus, Capabilities: [["gpu"]] }] }
              : {}),
          },
        });
        await call("POST", `/containers/${Id}/start`);
      }
    },
    list: async () => (await containers()).flatMap(seenOf),
    stop: async (seen, hurry = false) => {
      // Gone, or ended just now: as wanted.
      const ignore = (error: unknown) => {
        if (!hasCode(error, "not_found") && !/is not running/.test(messageOf(error))) throw error;
      };
      const signal = hurry ? "SIGKILL" : "SIGTERM";
      await Promise.all(
        seen.map(({ handle, state }) =>
          state === "running"
            ? call("POST", `/containers/${handle}/kill?signal=${signal}`).catch(ignore)
            : call("DELETE", `/containers/${handle}?force=true`).catch(ignore),
        ),
      );
    },
    logs: async ({ handle }) => {
      const { text } = await tools.http({
        method: "GET",
        url: `http://docker/${apiVersion}/containers/${handle}/logs?stdout=true&stderr=true&tail=20`,
        socketPath,
      });
      // Each line comes with eight bytes that say whose it is and how long.
      const lines = text.split("\n").map((line) => line.replace(/^[^{A-Za-z]*/, ""));
      return lines.join("\n").slice(-4_000);
    },
  };
}

function flagsOf(parameters: ProviderSettings["parameters"]): string[] {
  return parameters["reach"] ? ["--reach", parameters["reach"]] : [];
}

function seenOf({ Id, State, Status, Labels }: Container): Seen[] {
  const instance = Labels["dcnr.instance"] ?? "";
  if (!isInstance(instance)) return [];
  const state =
    State === "running" || State === "restarting" || State === "paused"
      ? "running"
      : State === "created"
        ? "waiting"
        : "ended";
  return [{ instance, handle: Id, state, detail: state === "ended" ? `Docker says ${Status}` : "" }];
}

function messageIn(text: string): string {
  return ((json(text) as { message?: string } | undefined)?.message ?? "").slice(0, 300);
}

function json(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
