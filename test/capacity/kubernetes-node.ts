// Plays what a cluster has beside its API: the controller that makes a pod for each Job, and a node that runs it, as a process of
// this machine. It sees and says everything by the API, as the real ones do.

import assert from "node:assert/strict";
import { type ChildProcess, spawn } from "node:child_process";
import type { KubernetesApi } from "./kubernetes-cluster.ts";

interface Named {
  readonly metadata: {
    readonly name: string;
    readonly uid: string;
    readonly labels: Readonly<Record<string, string>>;
    readonly deletionTimestamp?: string;
    readonly finalizers?: readonly string[];
  };
}

interface Container {
  readonly image: string;
  readonly args: readonly string[];
  readonly env: readonly { readonly name: string; readonly value?: string }[];
}

interface Pod extends Named {
  readonly spec: { readonly containers: readonly [Container] };
}

interface Job extends Named {
  readonly spec: { readonly template: { readonly metadata: object; readonly spec: object } };
  readonly status?: { readonly conditions?: readonly unknown[] };
}

const lookEveryMs = 200;

/** The command that an image stands for on this machine. */
export type Images = Readonly<Record<string, readonly [program: string, ...args: string[]]>>;

export class PlayedNode {
  readonly #api: KubernetesApi;
  readonly #namespace: string;
  readonly #folder: string;
  readonly #images: Images;
  /** By the names of their pods. */
  readonly #processes = new Map<string, ChildProcess>();
  #stopped = false;
  #looking: Promise<void>;
  /** What went wrong, for whoever waits. */
  problem: unknown;

  constructor(api: KubernetesApi, namespace: string, folder: string, images: Images) {
    this.#api = api;
    this.#namespace = namespace;
    this.#folder = folder;
    this.#images = images;
    this.#looking = this.#look();
  }

  async stop(): Promise<void> {
    this.#stopped = true;
    await this.#looking;
    for (const child of this.#processes.values()) child.kill("SIGKILL");
  }

  /** As a node that loses power. */
  kill(instance: string): void {
    for (const [pod, child] of this.#processes) if (pod.includes(instance)) child.kill("SIGKILL");
  }

  get running(): number {
    return this.#processes.size;
  }

  async #look(): Promise<void> {
    while (!this.#stopped) {
      try {
        await this.#turn();
      } catch (error) {
        this.problem = error;
      }
      await new Promise((resolve) => setTimeout(resolve, lookEveryMs));
    }
  }

  #path(kind: "jobs" | "pods", name = ""): string {
    const group = kind === "jobs" ? "/apis/batch/v1" : "/api/v1";
    return `${group}/namespaces/${this.#namespace}/${kind}${name && `/${name}`}`;
  }

  async #list<T>(kind: "jobs" | "pods"): Promise<Map<string, T & Named>> {
    const { items } = await this.#api.call<{ items: (T & Named)[] }>("GET", this.#path(kind));
    return new Map(items.map((one) => [one.metadata.name, one]));
  }

  async #turn(): Promise<void> {
    const jobs = await this.#list<Job>("jobs");
    const pods = await this.#list<Pod>("pods");
    for (const job of jobs.values()) {
      const isOver = (job.status?.conditions?.length ?? 0) > 0;
      if (!isOver && !job.metadata.deletionTimestamp && !pods.has(job.metadata.name)) await this.#run(job);
    }
    // The garbage collector's part: what belongs to a Job ends with it.
    for (const name of pods.keys()) if (!jobs.has(name)) await this.#end(name);
  }

  async #run({ metadata: { name, uid }, spec: { template } }: Job): Promise<void> {
    const owner = { apiVersion: "batch/v1", kind: "Job", name, uid, controller: true };
    const metadata = { ...template.metadata, name, ownerReferences: [owner] };
    const body = { apiVersion: "v1", kind: "Pod", metadata, spec: { ...template.spec, nodeName: "played" } };
    const pod = await this.#api.call<Pod>("POST", this.#path("pods"), body);
    const [{ image, args, env }] = pod.spec.containers;
    const [program, ...before] = this.#images[image] ?? assert.fail(`there is no image ${image}`);
    const own = (word: string) =>
      word
        .replace("$(POD_IP)", "127.0.0.1")
        .replace(/^0\.0\.0\.0:.*/, "127.0.0.1:0")
        .replace("/var/lib/dcnr", `${this.#folder}/${name}`);
    const words = args
      .map(own)
      .filter((word, index, all) => word !== "--advertise" && all[index - 1] !== "--advertise");
    const variables = Object.fromEntries(
      env.flatMap(({ name: key, value }) => (value === undefined ? [] : [[key, value]])),
    );
    const child = spawn(program, [...before, ...words], {
      ...{ env: { ...process.env, ...variables }, stdio: "ignore" },
    });
    this.#processes.set(name, child);
    child.once("exit", (code) => {
      this.#processes.delete(name);
      void this.#tell(name, code === 0).catch(() => {});
    });
    await this.#status("pods", name, { phase: "Running", startTime: new Date().toISOString() });
    await this.#status("jobs", name, { active: 1, startTime: new Date().toISOString() });
  }

  /** A pod that ended, and the Job that was its only try. */
  async #tell(name: string, isWell: boolean): Promise<void> {
    await this.#status("pods", name, { phase: isWell ? "Succeeded" : "Failed" });
    const now = new Date().toISOString();
    const condition = (type: string) => ({ type, status: "True", lastTransitionTime: now, message: "its pod ended" });
    const conditions = isWell
      ? [condition("SuccessCriteriaMet"), condition("Complete")]
      : [condition("FailureTarget"), { ...condition("Failed"), reason: "BackoffLimitExceeded" }];
    const counts = isWell ? { succeeded: 1, completionTime: now } : { failed: 1 };
    await this.#status("jobs", name, { active: 0, ...counts, conditions });
  }

  async #status(kind: "jobs" | "pods", name: string, status: object): Promise<void> {
    const now = await this.#api.call<Named & { status?: object }>("GET", this.#path(kind, name));
    const { resourceVersion: _, ...metadata } = now.metadata as Named["metadata"] & { resourceVersion: string };
    const next = { ...now, metadata, status: { ...now.status, ...status } };
    await this.#api.call("PUT", `${this.#path(kind, name)}/status`, next);
  }

  async #end(name: string): Promise<void> {
    const child = this.#processes.get(name);
    if (child) child.kill("SIGTERM");
    else await this.#api.call("DELETE", this.#path("pods", name), { gracePeriodSeconds: 0 });
  }
}
