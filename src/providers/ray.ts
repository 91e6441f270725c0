// PNodes as jobs of a Ray cluster, by the cluster's Jobs API: each is a job whose entry point needs the offer's cores and
// GPUs, so that Ray puts it on a node that has them. A cluster that answers without a token would run anybody's commands;
// it is refused.

import { fail, hasCode } from "../core/errors.ts";
import { joinWords, linkVariable, quoted, shellWords } from "./join-command.ts";
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

const states: Readonly<Record<string, Seen["state"]>> = { PENDING: "waiting", RUNNING: "running" };

interface RayJob {
  readonly submission_id?: string | null;
  readonly status: string;
  readonly message?: string | null;
}

export function openRay(settings: ProviderSettings, tools: ProviderTools): Provider {
  const { parameters, cluster, provider } = settings;
  const address = (parameters["address"] ?? "").replace(/\/$/, "");
  const prefix = `dcnr-${cluster}-${provider}-`;
  const token = async () => (await tools.readFile(parameters["token-file"] ?? "")).trim();
  const call = async <T>(method: HttpRequest["method"], path: string, body?: unknown): Promise<T> => {
    const headers = { authorization: `Bearer ${await token()}` };
    const { status, text } = await tools.http({ method, url: `${address}${path}`, headers, ...(body ? { body } : {}) });
    if (status === 401 || status === 403)
      fail("permission_denied", `Ray does not take the token of ${parameters["token-file"]}`);
    if (status === 404) fail("not_found", `Ray knows no ${path}: is ${address} its dashboard?`);
    if (status >= 300) fail("unavailable", `Ray refuses (${status}): ${text.trim().split("\n").at(-1)?.slice(0, 300)}`);
    return JSON.parse(text || "null") as T;
  };
  /** Asked each time before something is started: a cluster may have been opened since. */
  const checkClosed = async () => {
    const { status } = await tools.http({ method: "GET", url: `${address}/api/jobs/` });
    if (status < 300)
      fail(
        "failed_precondition",
        `Ray at ${address} answers without a token, so anybody could run commands there: start it with RAY_AUTH_MODE=token`,
      );
  };
  const offers = async (): Promise<readonly Offer[]> =>
    settings.offers.length > 0
      ? settings.offers
      : fail("failed_precondition", "a Ray provider offers what you declare: add --offer NAME,cores=N,memory=SIZE");
  return {
    test: () =>
      findings(
        async () => {
          await checkClosed();
          return `Ray at ${address} asks for a token`;
        },
        async () => `it takes ours, and runs ${(await call<readonly RayJob[]>("GET", "/api/jobs/")).length} job(s)`,
        async () => `it is to offer ${(await offers()).length} kind(s) of machine`,
      ),
    offers,
    start: async (offer, wanted) => {
      await checkClosed();
      const program = quoted(parameters["program"] ?? "dcnr");
      for (const one of wanted) {
        const words = shellWords(joinWords(settings, offer, one));
        const own = `"\${TMPDIR:-/tmp}/${prefix}${one.instance}"`;
        await call("POST", "/api/jobs/", {
          submission_id: `${prefix}${one.instance}`,
          entrypoint: `exec ${program} ${words} --dir ${own}`,
          runtime_env: { env_vars: { [linkVariable]: one.link } },
          entrypoint_num_cpus: offer.cores,
          entrypoint_num_gpus: offer.gpus,
          entrypoint_memory: offer.memoryBytes,
        });
      }
    },
    list: async () =>
      (await call<readonly RayJob[]>("GET", "/api/jobs/")).flatMap(({ submission_id, status, message }) => {
        const handle = submission_id ?? "";
        const instance = handle.slice(prefix.length);
        if (!handle.startsWith(prefix) || !isInstance(instance)) return [];
        const state = states[status] ?? "ended";
        const said = message?.split("\n", 1)[0]?.slice(0, 300) ?? "";
        return [
          { instance, handle, state, detail: state === "running" ? "" : said || `Ray says ${status.toLowerCase()}` },
        ];
      }),
    /** Ray kills by itself what does not end. */
    stop: async (seen) => {
      for (const { handle, state } of seen) {
        const asked =
          state === "ended" ? call("DELETE", `/api/jobs/${handle}`) : call("POST", `/api/jobs/${handle}/stop`);
        await asked.catch((error: unknown) => {
          if (!hasCode(error, "not_found")) throw error;
        });
      }
    },
    logs: async ({ handle }) =>
      (await call<{ logs?: string }>("GET", `/api/jobs/${handle}/logs`)).logs?.slice(-4_000) ?? "",
  };
}
