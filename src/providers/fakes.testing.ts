// Clusters that are not there: each behaves as its real one does towards a provider, and no further.

import { createServer, type IncomingMessage, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { fail } from "../core/errors.ts";
import { httpCall } from "../system/wires/http-call.ts";
import type { CommandResult, Offer, ProviderTools } from "./provider.ts";

export const smallOffer: Offer = {
  ...{ name: "small", cores: 1, memoryBytes: 256 * 2 ** 20, gpus: 0, gpuMemoryBytes: 0, gpuType: "" },
  ...{ pricePerHour: 0.1, region: "eu", spot: false, most: 4, bootSeconds: 10 },
};

export const nothing: ProviderTools = {
  command: async (program) => fail("failed_precondition", `there is no program ${program} here`),
  http: httpCall,
  readFile: async (path) => fail("not_found", `no file ${path}`),
  program: "dcnr",
  folder: "/tmp",
};

/** sbatch, squeue, scancel and sinfo over a list of jobs. */
export class FakeSlurm {
  readonly jobs = new Map<string, { name: string; state: string; script: string; options: readonly string[] }>();
  #next = 100;

  readonly command = async (
    program: string,
    args: readonly string[],
    options: { input?: string } = {},
  ): Promise<CommandResult> => {
    const said = (out: string) => ({ code: 0, out, err: "" });
    if (program === "sinfo" && args.includes("--version")) return said("slurm-wlm 22.05.8\n");
    if (program === "sinfo" && args.includes("--Node"))
      return said("n1|8|8000|gpu:fake:2(S:0)|idle\nn2|8|8000|gpu:fake:2|mixed\nn3|8|8000|(null)|down\n");
    if (program === "sinfo") return said("debug*|2|idle\n");
    if (program === "sbatch") return said(this.#submit(args, options.input ?? ""));
    if (program === "squeue")
      return said(Array.from(this.jobs, ([id, { name, state }]) => `${id}|${name}|${state}|None|n1`).join("\n"));
    if (program !== "scancel") return fail("failed_precondition", `there is no program ${program} here`);
    for (const id of args.filter((one) => !one.startsWith("-"))) {
      const job = this.jobs.get(id);
      if (!job) return { code: 1, out: "", err: "scancel: error: Invalid job id specified" };
      job.state = "CANCELLED";
    }
    return said("");
  };

  #submit(args: readonly string[], script: string): string {
    const value = (name: string) => args.find((one) => one.startsWith(`--${name}=`))?.slice(name.length + 3) ?? "";
    if (args.includes("--test-only")) return "";
    const id = this.#next++;
    const last = Number(value("array").split("-")[1]);
    for (let task = 0; task <= last; task++)
      this.jobs.set(`${id}_${task}`, { name: value("job-name"), state: "RUNNING", script, options: args });
    return `${id}\n`;
  }
}

type Answer = readonly [status: number, body?: unknown];

/** A server of ours; on a socket if `path` is given. */
export async function fakeServer(
  answer: (method: string, url: URL, body: Record<string, unknown>, request: IncomingMessage) => Answer,
  path?: string,
): Promise<{ readonly server: Server; readonly address: string; close(): Promise<void> }> {
  const server = createServer((request, response) => {
    let text = "";
    request.setEncoding("utf8").on("data", (part: string) => {
      text += part;
    });
    request.on("end", () => {
      const [status, body] = answer(
        request.method ?? "",
        new URL(request.url ?? "/", "http://x"),
        JSON.parse(text || "{}"),
        request,
      );
      response.writeHead(status, { "content-type": "application/json" });
      response.end(body === undefined ? "" : JSON.stringify(body));
    });
  });
  await new Promise<void>((resolve) => (path ? server.listen(path, resolve) : server.listen(0, "127.0.0.1", resolve)));
  const address = path ?? `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  return { server, address, close: () => new Promise((resolve) => server.close(() => resolve())) };
}

interface Made {
  readonly body: Record<string, unknown>;
  state: string;
}

export class FakeDocker {
  readonly containers = new Map<string, Made>();
  #next = 0;

  readonly answer = (method: string, url: URL, body: Record<string, unknown>): Answer => {
    const [, , what = "", id = "", verb = ""] = url.pathname.split("/");
    if (what === "info") return [200, { ServerVersion: "20.10.24", NCPU: 2, MemTotal: 8 * 2 ** 30 }];
    if (what === "images") return id === "dcnr" ? [200, {}] : [404, { message: `No such image: ${id}` }];
    if (id === "json") {
      const { label } = JSON.parse(url.searchParams.get("filters") ?? "{}") as { label: string[] };
      const labels = ({ body: { Labels } }: Made) => Labels as Record<string, string>;
      const fits = (one: Made) => label.every((pair) => labels(one)[pair.split("=")[0] ?? ""] === pair.split("=")[1]);
      return [
        200,
        Array.from(this.containers)
          .filter(([, one]) => fits(one))
          .map(([Id, one]) => ({ Id, State: one.state, Status: "Exited (0)", Labels: labels(one) })),
      ];
    }
    if (id === "create") {
      const made = `c${this.#next++}`;
      this.containers.set(made, { body, state: "created" });
      return [201, { Id: made }];
    }
    const container = this.containers.get(id);
    if (!container) return [404, { message: `No such container: ${id}` }];
    if (method === "DELETE") return [this.containers.delete(id) ? 204 : 404];
    if (verb === "start") container.state = "running";
    if (verb === "kill" && container.state !== "running") return [409, { message: `Container ${id} is not running` }];
    if (verb === "kill") container.state = "exited";
    return [200, {}];
  };
}

export class FakeKubernetes {
  readonly jobs = new Map<string, Made>();
  /** What it wants to see of whoever calls. */
  readonly token = "the-token";

  readonly answer = (method: string, url: URL, body: Record<string, unknown>, request: IncomingMessage): Answer => {
    if (request.headers.authorization !== `Bearer ${this.token}`) return [401, { message: "Unauthorized" }];
    if (url.pathname === "/version") return [200, { gitVersion: "v1.31.4" }];
    const [, , , , , space = "", what = "", name = ""] = url.pathname.startsWith("/api/")
      ? ["", ...url.pathname.split("/")]
      : url.pathname.split("/");
    if (space !== "lab") return [403, { message: `jobs is forbidden in the namespace "${space}"` }];
    const wants = new Map(
      (url.searchParams.get("labelSelector") ?? "").split(",").map((pair) => pair.split("=") as [string, string]),
    );
    const labels = ({ body: one }: Made) => (one["metadata"] as { labels: Record<string, string> }).labels;
    const chosen = () =>
      Array.from(this.jobs).filter(([, one]) =>
        Array.from(wants).every(([key, value]) => key === "" || labels(one)[key] === value),
      );
    if (method === "POST") {
      const made = (body["metadata"] as { name: string }).name;
      if (this.jobs.has(made)) return [409, { message: `jobs.batch "${made}" already exists` }];
      if (!url.searchParams.has("dryRun")) this.jobs.set(made, { body, state: "Running" });
      return [201, {}];
    }
    if (method === "DELETE")
      return this.jobs.delete(name) ? [200, {}] : [404, { message: `jobs.batch "${name}" not found` }];
    if (what === "pods")
      return [
        200,
        {
          items: chosen().map(([id, one]) => ({
            metadata: { name: `${id}-x`, labels: labels(one) },
            status: { phase: one.state },
          })),
        },
      ];
    return [
      200,
      {
        items: chosen().map(([id, one]) => ({
          metadata: { name: id, labels: labels(one) },
          status: one.state === "Failed" ? { failed: 1 } : { active: 1 },
        })),
      },
    ];
  };
}

export class FakeRay {
  readonly jobs = new Map<string, Made>();
  readonly token = "the-token";
  isOpen = false;

  readonly answer = (method: string, url: URL, body: Record<string, unknown>, request: IncomingMessage): Answer => {
    if (!this.isOpen && request.headers.authorization !== `Bearer ${this.token}`) return [401, {}];
    const [, , , id = "", verb = ""] = url.pathname.split("/");
    if (method === "POST" && id === "") {
      this.jobs.set(body["submission_id"] as string, { body, state: "RUNNING" });
      return [200, { submission_id: body["submission_id"] }];
    }
    if (id === "")
      return [
        200,
        Array.from(this.jobs, ([submission_id, { state }]) => ({
          submission_id,
          status: state,
          message: "Job said so.\nand more",
        })),
      ];
    const job = this.jobs.get(id);
    if (!job) return [404, {}];
    if (method === "DELETE") return [this.jobs.delete(id) ? 200 : 404, {}];
    if (verb === "stop") job.state = "STOPPED";
    return [200, verb === "logs" ? { logs: "words\n" } : {}];
  };
}
