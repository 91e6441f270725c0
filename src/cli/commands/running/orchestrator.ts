// `dcnr orchestrator`: one orchestrator until Ctrl-C. Several may share one store.

import { readFileSync } from "node:fs";
import { hostname } from "node:os";
import { join } from "node:path";
import { fail, messageOf } from "../../../core/errors.ts";
import { keyIdOf } from "../../../core/keys.ts";
import { dashboardHandler } from "../../../dashboard/handler.ts";
import { monitoringHandler } from "../../../monitoring/handler.ts";
import { compiling } from "../../../network/works.ts";
import { type Orchestrator, startOrchestrator } from "../../../orchestrator/orchestrator.ts";
import { ApiKeys } from "../../../orchestrator/rights/keys.ts";
import { allowedPages, parseOrigin } from "../../../orchestrator/serving/http/origins.ts";
import { storeProblems } from "../../../orchestrator/views/health.ts";
import { openGrpcNetwork } from "../../../protocol/grpc.ts";
import type { WebCertificate } from "../../../protocol/identity/tls.ts";
import { isLoopback, parseAddress, withKey } from "../../../protocol/routes/address.ts";
import { routedNetwork } from "../../../protocol/routes/routed-network.ts";
import { firstOf } from "../../../protocol/server/http.ts";
import { providerKinds } from "../../../providers/kinds.ts";
import { tensorsToo } from "../../../relay/limits.ts";
import { openBlobStore, openStateStore } from "../../../store/open.ts";
import { keptFile } from "../../../system/files/kept-file.ts";
import { verifyBy, verifySignature } from "../../../system/keys.ts";
import { openAside } from "../../../system/threads/aside.ts";
import { backgroundTimers } from "../../../system/timers.ts";
import { answerOnLan } from "../../../system/wires/lan.ts";
import type { Command, Flags } from "../../command.ts";
import { checkAdvertised } from "../../flags/limits.ts";
import { logOptions, worldFrom } from "../../flags/logging.ts";
import { parseRate } from "../../flags/quantities.ts";
import { orchestratorDefault } from "../../joining/connection.ts";
import { reachableAddress } from "../../joining/reachable.ts";
import { loadDashboard } from "../../machine/dashboard-files.ts";
import { dataDirectory, directoryOption } from "../../machine/directories.ts";
import { loadLottery } from "../../machine/keys/lottery-key.ts";
import { followNetworkKey, loadNetworkKey, presentKey, rotateNetworkKey } from "../../machine/keys/network-key.ts";
import { tellParent, untilAborted } from "../../machine/processes.ts";
import { providerRights } from "../../machine/provider-rights.ts";
import { softwareVersion } from "../../machine/software.ts";
import { countAnswers } from "../../monitoring/answers.ts";
import { countEvents, describeOrchestrator } from "../../monitoring/orchestrator.ts";
import { countingLogs, openRegistry } from "../../monitoring/process.ts";
import { measuredStore } from "../../monitoring/store.ts";
import type { Output } from "../../shown/output.ts";

export const command: Command = {
  summary: "Run an orchestrator. Any number of them may share one store; none is special.",
  options: {
    listen: { type: "string", value: "ADDRESS", summary: "where to listen", default: orchestratorDefault },
    advertise: {
      type: "string",
      value: "ADDRESS",
      summary: "address that PNodes and other orchestrators use (default: as bound)",
    },
    dir: directoryOption,
    store: {
      type: "string",
      value: "STORE",
      summary: "sqlite:PATH, dynamodb:TABLE[@endpoint] or postgres://... (default: SQLite in the directory)",
    },
    blobs: {
      type: "string",
      value: "BLOBS",
      summary: "dir:PATH or s3://bucket/prefix[@endpoint] (default: a folder in the directory)",
    },
    relay: {
      type: "boolean",
      summary: "carry tensors of machines that cannot be called, unread (calls are always carried)",
    },
    "relay-rate": { type: "string", value: "RATE", summary: "bytes a second to relay at most", default: "50MB/s" },
    providers: {
      type: "string",
      value: "KINDS",
      many: true,
      summary: `kinds of providers that administrators may have machines started by from here: ${providerKinds.join(", ")} (default: none)`,
    },
    "require-keys": {
      type: "boolean",
      summary: "ask local callers for API keys too: needed behind a proxy on this machine; the first key is printed",
    },
    "behind-proxy": {
      type: "boolean",
      summary: "answer plain text from other machines, for a proxy that ends TLS; everybody needs an API key then",
    },
    "tls-cert": { type: "string", value: "FILE", summary: "certificate (PEM) for browsers and OpenAI clients" },
    "tls-key": { type: "string", value: "FILE", summary: "private key (PEM) of that certificate" },
    "allow-host": {
      type: "string",
      value: "NAME",
      many: true,
      summary: "host name under which this orchestrator is known",
    },
    "allow-origin": {
      type: "string",
      value: "ORIGIN",
      many: true,
      summary: "pages of this origin (https://chat.example) may ask served models, and nothing else",
    },
    ...logOptions,
  },
  examples: [
    "dcnr orchestrator",
    "dcnr orchestrator --listen 0.0.0.0:7700 --advertise lab.example:7700 --store postgres://dcnr@db/dcnr --blobs s3://models/dcnr",
  ],
  run: async ({ flags, out, signal }) => {
    const registry = openRegistry("orchestrator");
    const world = countingLogs(worldFrom(flags), registry);
    const listen = parseAddress(flags.text("listen"));
    if (flags.has("advertise")) checkAdvertised(flags.text("advertise"));
    const directory = dataDirectory(flags.optionalText("dir"), process.env);
    const store = await openStateStore(flags.optionalText("store") ?? `sqlite:${join(directory, "state.db")}`, {
      world,
    });
    const identity = await loadNetworkKey(store, world);
    const allowsPage = allowedPages(flags.texts("allow-origin").map(parseOrigin));
    const wires = openGrpcNetwork({
      ...{ timers: backgroundTimers, log: world.log, identity },
      allowedHosts: flags.texts("allow-host"),
      allowsPage,
      plainFromAnywhere: flags.is("behind-proxy"),
      ...webCertificate(flags),
    });
    const network = routedNetwork(wires, { ...world, timers: backgroundTimers });
    const { shown, signing } = presentKey(identity, wires);
    if (flags.is("behind-proxy"))
      out.note(
        "plain text is answered from anywhere (--behind-proxy): whoever reaches this port past the proxy is not encrypted",
      );

    const blobs = await openBlobStore(flags.optionalText("blobs") ?? `dir:${join(directory, "blobs")}`, {
      world,
      // At whichever orchestrator was asked, on the way by which it was.
      baseUrl: () => "",
    });
    const requireKeys = flags.is("require-keys") || flags.is("behind-proxy");
    if (requireKeys) await firstKey(new ApiKeys(store, world, false), out);
    let running: Orchestrator | undefined;
    describeOrchestrator(registry, () => running);
    const unready = () => (running ? storeProblems(running.parts.context) : ["starting"]);
    const aside = openAside();
    void aside.keepReady(compiling);
    const orchestrator = await startOrchestrator(
      {
        listen: `${listen.host.includes(":") ? `[${listen.host}]` : listen.host}:${listen.port}`,
        trustLoopback: !requireKeys,
        allowsPage,
        software: softwareVersion(),
        http: firstOf(monitoringHandler({ registry, unready }), dashboardHandler(loadDashboard)),
        ...(flags.is("relay") ? { relay: tensorsToo(parseRate(flags.text("relay-rate"), "--relay-rate")) } : {}),
        ...(flags.has("advertise") ? { advertise: flags.text("advertise") } : {}),
      },
      {
        world,
        network,
        identity: signing,
        store: measuredStore(store, registry, world.clock),
        blobs,
        aside,
        reachable: reachableAddress,
        membership: {
          identity: signing,
          keys: { verify: verifySignature, idOf: keyIdOf },
          file: keptFile(join(directory, "members.bin")),
        },
        providers: providerRights(flags.texts("providers"), directory),
        rotateNetworkKey: () => rotateNetworkKey(store, world, shown),
        verify: verifyBy,
        lottery: await loadLottery(store),
      },
    );
    running = orchestrator;
    const unfollow = followNetworkKey(store, world, shown);
    countEvents(registry, orchestrator);
    countAnswers(registry, orchestrator.asked);
    const { address } = orchestrator;
    const key = network.key ?? identity.id;
    tellParent({ address, id: orchestrator.id, key }, () => process.emit("SIGTERM"));
    if (flags.is("json")) out.json({ address, id: orchestrator.id, key, pid: process.pid });
    else
      out.advice(
        `orchestrator ${orchestrator.id} on ${pageOf(address, flags.has("tls-cert"))}. Lend a machine: dcnr join ${withKey(address, key)}. Ctrl-C ends it.`,
      );
    // Whoever listens for this machine alone is nobody's business elsewhere.
    const lan = isLoopback(listen.host)
      ? undefined
      : await answerOnLan({ port: parseAddress(address).port, key, name: hostname() }, world);
    await untilAborted(signal);
    unfollow();
    lan?.close();
    await orchestrator.stop();
    await aside.close();
    await blobs.close();
    await store.close();
    await network.close();
    return 0;
  },
};

/** Where a browser finds it: beyond this machine only with a certificate that browsers believe. */
export function pageOf(address: string, hasCertificate: boolean): string {
  if (hasCertificate) return `https://${address}`;
  const { host, port } = parseAddress(address);
  return isLoopback(host) ? `http://${address}` : `http://127.0.0.1:${port} (from this machine)`;
}

/** What browsers are shown; machines of the network know each other by keys and ask for no certificate. */
function webCertificate(flags: Flags): { webCertificate?: WebCertificate } {
  const [cert, key] = [flags.optionalText("tls-cert"), flags.optionalText("tls-key")];
  if (cert === undefined && key === undefined) return {};
  if (cert === undefined || key === undefined) fail("invalid_argument", "--tls-cert and --tls-key belong together");
  const read = (path: string) => {
    try {
      return readFileSync(path, "utf8");
    } catch (error) {
      return fail("invalid_argument", `cannot read ${path}: ${messageOf(error)}`);
    }
  };
  return { webCertificate: { cert: read(cert), key: read(key) } };
}

/** Where everybody needs a key, nobody could make the first one. */
async function firstKey(keys: ApiKeys, out: Output): Promise<void> {
  if ((await keys.list()).length > 0) return;
  const { secret } = await keys.create({ name: "first", scopes: ["admin"] });
  out.note(`there was no API key yet; this one may do everything and is not shown again (DCNR_API_KEY): ${secret}`);
}
