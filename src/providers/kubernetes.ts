// PNodes as Jobs of a Kubernetes cluster, by its API with the operator's kubeconfig or the pod's own service account. One Job
// is one PNode that is tried once; GPUs are limits, and a node selector says where.

import { fail, hasCode } from "../core/errors.ts";
import { joinWords, linkVariable } from "./join-command.ts";
import { type ClusterAccess, inCluster, readKubeconfig } from "./kubeconfig.ts";
import {
  findings,
  type HttpRequest,
  isInstance,
  type Offer,
  type Provider,
  type ProviderSettings,
  type ProviderTools,
  type Seen,
  type Wanted,
} from "./provider.ts";

/** Long enough to hand VNodes over. */
const graceSeconds = 40;
/** A Job that ended is kept so long for people, should nobody remove it. */
const keptSeconds = 3_600;
const folder = "/var/lib/dcnr";
const port = 7801;

interface Job {
  readonly metadata: {
    readonly name: string;
    readonly labels?: Readonly<Record<string, string>>;
    readonly deletionTimestamp?: string;
  };
  readonly status?: {
    readonly active?: number;
    readonly ready?: number;
    readonly succeeded?: number;
    readonly failed?: number;
    readonly conditions?: readonly {
      readonly type: string;
      readonly status: string;
      readonly message?: string;
      readonly reason?: string;
    }[];
  };
}

interface Pod {
  readonly metadata: { readonly name: string; readonly labels?: Readonly<Record<string, string>> };
  readonly status?: { readonly phase?: string; readonly conditions?: readonly { readonly message?: string }[] };
}

export function openKubernetes(settings: ProviderSettings, tools: ProviderTools): Provider {
  const { parameters, cluster, provider } = settings;
  const access = (): Promise<ClusterAccess> =>
    parameters["kubeconfig"]
      ? readKubeconfig(parameters["kubeconfig"], parameters["context"] ?? "", tools)
      : inCluster(tools);
  const call = async <T>(method: HttpRequest["method"], path: string, body?: unknown): Promise<T> => {
    const { server, headers, tls } = await access();
    const { status, text } = await tools.http({
      method,
      url: `${server}${path}`,
      headers,
      tls,
      ...(body ? { body } : {}),
    });
    if (status < 300) return parsed(text) as T;
    const said =
      ((parsed(text) as { message?: string } | undefined)?.message ?? "").slice(0, 300) || `status ${status}`;
    if (status === 404) fail("not_found", `Kubernetes says: ${said}`);
    if (status === 401)
      fail("permission_denied", `Kubernetes does not know us: ${said}. Renew the credentials in the kubeconfig`);
    if (status === 403)
      fail("permission_denied", `Kubernetes forbids it: ${said}. See deploy/kubernetes/provider-role.yaml`);
    return fail("unavailable", `Kubernetes refuses: ${said}`);
  };
  const namespaceOf = async () => parameters["namespace"] ?? (await access()).namespace;
  const jobsPath = async () => `/apis/batch/v1/namespaces/${await namespaceOf()}/jobs`;
  const selector = encodeURIComponent(`dcnr/cluster=${cluster},dcnr/provider=${provider}`);
  const podsOf = async () =>
    (
      await call<{ items: readonly Pod[] }>(
        "GET",
        `/api/v1/namespaces/${await namespaceOf()}/pods?labelSelector=${selector}`,
      )
    ).items;

  const offers = async (): Promise<readonly Offer[]> => {
    if (settings.offers.length > 0) return settings.offers;
    return fail(
      "failed_precondition",
      "a Kubernetes provider offers what you declare: add --offer NAME,cores=N,memory=SIZE",
    );
  };
  return {
    test: () =>
      findings(
        async () => {
          const { gitVersion } = await call<{ gitVersion: string }>("GET", "/version");
          return `Kubernetes ${gitVersion} answers at ${(await access()).server}`;
        },
        async () => {
          await call("GET", await jobsPath());
          await podsOf();
          return `Jobs and pods of namespace ${await namespaceOf()} may be listed`;
        },
        async () => {
          const [offer] = await offers();
          const probe = { instance: "probeprobe-0", link: "", name: "probe" };
          await call("POST", `${await jobsPath()}?dryRun=All`, jobOf(settings, offer as Offer, probe));
          return `a Job of offer ${offer?.name} would be taken`;
        },
      ),
    offers,
    start: async (offer, wanted) => {
      for (const one of wanted) await call("POST", await jobsPath(), jobOf(settings, offer, one));
    },
    list: async () => {
      const { items } = await call<{ items: readonly Job[] }>("GET", `${await jobsPath()}?labelSelector=${selector}`);
      const pods = new Map((await podsOf()).map((pod) => [pod.metadata.labels?.["dcnr/instance"] ?? "", pod]));
      return items.flatMap((job) => seenOf(job, pods.get(job.metadata.labels?.["dcnr/instance"] ?? "")));
    },
    stop: async (seen, hurry = false) => {
      for (const { handle } of seen) {
        const options = { propagationPolicy: "Background", ...(hurry ? { gracePeriodSeconds: 0 } : {}) };
        await call("DELETE", `${await jobsPath()}/${handle}`, options).catch((error: unknown) => {
          if (!hasCode(error, "not_found")) throw error;
        });
      }
    },
    logs: async ({ instance }) => {
      const pod = (await podsOf()).find(({ metadata }) => metadata.labels?.["dcnr/instance"] === instance);
      if (!pod) return "";
      const { server, headers, tls } = await access();
      const url = `${server}/api/v1/namespaces/${await namespaceOf()}/pods/${pod.metadata.name}/log?tailLines=20`;
      const { status, text } = await tools.http({ method: "GET", url, headers, tls });
      return status < 300 ? text.slice(-4_000) : "";
    },
  };
}

function seenOf({ metadata, status = {} }: Job, pod: Pod | undefined): Seen[] {
  const instance = metadata.labels?.["dcnr/instance"] ?? "";
  if (!isInstance(instance)) return [];
  const over = status.conditions?.find(
    ({ type, status: is }) => (type === "Failed" || type === "Complete") && is === "True",
  );
  const isOver = over !== undefined || (status.failed ?? 0) + (status.succeeded ?? 0) > 0;
  const phase = pod?.status?.phase ?? "Pending";
  const waitsFor = pod?.status?.conditions?.find(({ message }) => message)?.message ?? "";
  const state = isOver ? "ended" : phase === "Running" ? "running" : "waiting";
  const detail = isOver
    ? `Kubernetes says ${over?.message ?? over?.type.toLowerCase() ?? "ended"}`
    : state === "waiting"
      ? waitsFor
      : "";
  return [{ instance, handle: metadata.name, state, detail }];
}

function jobOf(settings: ProviderSettings, offer: Offer, wanted: Wanted): object {
  const { parameters, cluster, provider } = settings;
  const labels = {
    app: "dcnr-pnode",
    "dcnr/cluster": cluster,
    "dcnr/provider": provider,
    "dcnr/instance": wanted.instance,
  };
  const reach = parameters["reach"] ?? "10.0.0.0/8,172.16.0.0/12,192.168.0.0/16";
  const places = ["--listen", `0.0.0.0:${port}`, "--advertise", `$(POD_IP):${port}`, "--reach", reach];
  const gpuName = offer.gpuType || "nvidia.com/gpu";
  const selector = Object.fromEntries(
    (parameters["node-selector"] ?? "")
      .split(",")
      .filter(Boolean)
      .map((one) => one.split("=")),
  );
  const tmp = [
    { name: "state", mountPath: folder },
    { name: "tmp", mountPath: "/tmp" },
  ];
  return {
    apiVersion: "batch/v1",
    kind: "Job",
    metadata: { name: `dcnr-${provider}-${wanted.instance}`, labels },
    spec: {
      backoffLimit: 0,
      ttlSecondsAfterFinished: keptSeconds,
      template: {
        metadata: { labels },
        spec: {
          restartPolicy: "Never",
          terminationGracePeriodSeconds: graceSeconds,
          automountServiceAccountToken: false,
          ...(Object.keys(selector).length > 0 ? { nodeSelector: selector } : {}),
          securityContext: {
            runAsNonRoot: true,
            runAsUser: 10001,
            fsGroup: 10001,
            seccompProfile: { type: "RuntimeDefault" },
          },
          containers: [
            {
              name: "pnode",
              image: parameters["image"] ?? "dcnr",
              imagePullPolicy: "IfNotPresent",
              args: [...joinWords(settings, offer, wanted, places), "--dir", `${folder}/state`],
              env: [
                { name: linkVariable, value: wanted.link },
                { name: "POD_IP", valueFrom: { fieldRef: { fieldPath: "status.podIP" } } },
              ],
              resources: {
                requests: { cpu: String(offer.cores), memory: String(offer.memoryBytes) },
                limits: {
                  // What the process needs beside what it lends.
                  memory: String(offer.memoryBytes + 512 * 2 ** 20),
                  ...(offer.gpus > 0 ? { [gpuName]: String(offer.gpus) } : {}),
                },
              },
              securityContext: {
                allowPrivilegeEscalation: false,
                readOnlyRootFilesystem: true,
                capabilities: { drop: ["ALL"] },
              },
              volumeMounts: tmp,
            },
          ],
          volumes: tmp.map(({ name }) => ({ name, emptyDir: {} })),
        },
      },
    },
  };
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
