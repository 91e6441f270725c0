// Machines on demand from a real Kubernetes API, with the rights of deploy/kubernetes/provider-role.yaml and no others; the files
// beside that are taken by the same API. What runs pods is played. Runs where etcd and kube-apiserver are there.

import assert from "node:assert/strict";
import { mkdtemp, readdir, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { after, before, describe, it } from "node:test";
import { parseAllDocuments } from "yaml";
import { providerConformance } from "../../src/providers/conformance.ts";
import { nothing, smallOffer } from "../../src/providers/fakes.testing.ts";
import { openProvider } from "../../src/providers/kinds.ts";
import type { Provider } from "../../src/providers/provider.ts";
import { httpCall } from "../../src/system/wires/http-call.ts";
import { type KubernetesApi, kubernetesMissing, startKubernetes } from "./kubernetes-cluster.ts";
import { PlayedNode } from "./kubernetes-node.ts";
import { comeTrainDieAndGo, until, withOrchestrator } from "./scenario.ts";

const missing = await kubernetesMissing();
const namespace = "dcnr";
const files = "deploy/kubernetes";

interface Document {
  readonly apiVersion: string;
  readonly kind: string;
  readonly metadata: { readonly name: string };
}

/** Where the API takes one; of the kinds that our files have. */
function pathOf({ apiVersion, kind }: Document): string {
  const root = apiVersion.includes("/") ? `/apis/${apiVersion}` : `/api/${apiVersion}`;
  if (kind === "Namespace") return `${root}/namespaces`;
  const plural = kind === "NetworkPolicy" ? "networkpolicies" : `${kind.toLowerCase()}s`;
  return `${root}/namespaces/${namespace}/${plural}`;
}

async function documentsOf(file: string): Promise<Document[]> {
  const documents = parseAllDocuments(await readFile(join(files, file), "utf8"));
  return documents.map((one) => one.toJS() as Document);
}

describe("a real Kubernetes API", { skip: missing ?? false }, () => {
  let folder: string;
  let api: KubernetesApi;
  let node: PlayedNode;
  let kubeconfig: string;
  const create = (one: Document) => api.call("POST", `${pathOf(one)}?fieldValidation=Strict`, one);
  before(async () => {
    folder = await mkdtemp(join(tmpdir(), "dcnr-kubernetes-"));
    api = await startKubernetes(folder);
    for (const one of await documentsOf("namespace.yaml")) await create(one);
    // The controllers' part: pods need the account.
    const metadata = { name: "default" };
    await create({ apiVersion: "v1", kind: "ServiceAccount", metadata });
    for (const one of await documentsOf("provider-role.yaml")) await create(one);
    kubeconfig = await api.kubeconfig(namespace, "dcnr-provider");
    node = new PlayedNode(api, namespace, folder, {
      dcnr: [process.execPath, resolve("bin/dcnr.js")],
      // The suite's links lead nowhere: it is about what comes and goes.
      "stand-in": ["sh", "-c", "trap 'exit 0' TERM; while :; do sleep 1; done"],
    });
  });
  after(async () => {
    await node?.stop();
    await api?.stop();
    await rm(folder, { recursive: true, force: true });
  });
  const tools = { ...nothing, http: httpCall, readFile: (path: string) => readFile(path, "utf8") };
  const open = (
    cluster: string,
    more: Partial<typeof smallOffer> = {},
    parameters: Record<string, string> = {},
  ): Provider =>
    openProvider(
      {
        ...{
          kind: "kubernetes",
          parameters: { kubeconfig, image: "stand-in", ...parameters },
          cluster,
          provider: "lab",
        },
        offers: [{ ...smallOffer, ...more }],
      },
      tools,
    );

  it("takes every file of deploy/kubernetes", async () => {
    const left = ["kustomization.yaml", "namespace.yaml", "provider-role.yaml"];
    for (const file of (await readdir(files)).filter((one) => !left.includes(one)))
      for (const one of await documentsOf(file)) await create(one);
    const { items } = await api.call<{ items: Document[] }>(
      "GET",
      `/apis/apps/v1/namespaces/${namespace}/statefulsets`,
    );
    assert.equal(items.length, 1);
  });

  describe("as every provider", () => {
    providerConformance(async () => ({
      provider: open("net1"),
      foreign: open("net2"),
      kill: async ({ instance }) => node.kill(instance),
      close: async () => {},
    }));
  });

  it("gets GPUs as limits and a node selector, as it was told", async () => {
    const provider = open("net3", { gpus: 2, gpuType: "amd.com/gpu" }, { "node-selector": "zone=attic,disk=fast" });
    const [offer] = (await provider.offers()) as [typeof smallOffer];
    await provider.start(offer, [{ instance: "gpuaaa-0", link: "dcnr://127.0.0.1:1/x", name: "one" }]);
    const job = await api.call<{ spec: { template: { spec: Record<string, unknown> } } }>(
      "GET",
      `/apis/batch/v1/namespaces/${namespace}/jobs/dcnr-lab-gpuaaa-0`,
    );
    const { nodeSelector, containers } = job.spec.template.spec as {
      nodeSelector: object;
      containers: [{ resources: { limits: Record<string, string> } }];
    };
    assert.deepEqual(nodeSelector, { zone: "attic", disk: "fast" });
    assert.equal(containers[0].resources.limits["amd.com/gpu"], "2");
    await until("it is gone", async () => {
      await provider.stop(await provider.list(), true);
      return (await provider.list()).length === 0;
    });
  });

  it("says in a sentence what its rights do not allow", async () => {
    const findings = await open("net1", {}, { namespace: "kube-system" }).test();
    assert.match(findings.find(({ isWell }) => !isWell)?.sentence ?? "", /forbids it: .*kube-system.*provider-role/);
  });

  it("runs PNodes that train, loses one, and has none left at the end", () =>
    withOrchestrator("kubernetes", (world) =>
      comeTrainDieAndGo(
        world,
        {
          ...{ name: "box", kind: "kubernetes", parameters: { kubeconfig, reach: "127.0.0.0/8" } },
          offers: [{ name: "small", cores: 1, memoryBytes: 1n << 30n, most: 2, bootSeconds: 30 }],
        },
        async ({ id }) => node.kill(id),
        async () => {
          await until("what belonged to Jobs is gone with them", async () => node.running === 0, 60_000);
          const { items } = await api.call<{ items: unknown[] }>("GET", `/apis/batch/v1/namespaces/${namespace}/jobs`);
          return items.length;
        },
      ),
    ));
});
