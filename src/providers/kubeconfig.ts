// How a Kubernetes API is reached: by a kubeconfig that lies in a file of the operator's, or as a pod by its service account.
// Credentials are read when they are used and kept nowhere. Plug-ins are refused: they would be commands from a file.

import { parse } from "yaml";
import { fail, messageOf } from "../core/errors.ts";
import type { HttpRequest, ProviderTools } from "./provider.ts";

export interface ClusterAccess {
  readonly server: string;
  readonly namespace: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly tls: NonNullable<HttpRequest["tls"]>;
}

const account = "/var/run/secrets/kubernetes.io/serviceaccount";
const inClusterServer = "https://kubernetes.default.svc";

export async function inCluster(tools: ProviderTools): Promise<ClusterAccess> {
  const read = (name: string) =>
    tools
      .readFile(`${account}/${name}`)
      .catch((error: unknown) =>
        fail(
          "failed_precondition",
          "this orchestrator is no pod with a service account: give --set kubeconfig=PATH",
          error,
        ),
      );
  const [token, ca, namespace] = await Promise.all([read("token"), read("ca.crt"), read("namespace")]);
  return { server: inClusterServer, namespace: namespace.trim(), headers: bearer(token), tls: { ca } };
}

interface Kubeconfig {
  readonly "current-context"?: string;
  readonly contexts?: readonly {
    readonly name: string;
    readonly context: { readonly cluster: string; readonly user: string; readonly namespace?: string };
  }[];
  readonly clusters?: readonly { readonly name: string; readonly cluster: Readonly<Record<string, string>> }[];
  readonly users?: readonly { readonly name: string; readonly user: Readonly<Record<string, string>> }[];
}

export async function readKubeconfig(path: string, wanted: string, tools: ProviderTools): Promise<ClusterAccess> {
  const wrong = (what: string): never => fail("failed_precondition", `the kubeconfig ${path} ${what}`);
  const text = await tools.readFile(path).catch((error: unknown) => wrong(`cannot be read: ${messageOf(error)}`));
  const config = readYaml(text) ?? wrong("is no YAML");
  const name = wanted || config["current-context"] || wrong("names no current context: give --set context=NAME");
  const context = named(config.contexts, name)?.context ?? wrong(`has no context ${name}`);
  const cluster = named(config.clusters, context.cluster)?.cluster ?? wrong(`has no cluster ${context.cluster}`);
  const user = named(config.users, context.user)?.user ?? wrong(`has no user ${context.user}`);
  if (user["exec"] || user["auth-provider"])
    wrong("gets its credentials from a plug-in, which is not run here: use a token or a client certificate");
  const server = cluster["server"] ?? wrong(`has no server for cluster ${context.cluster}`);
  if (!/^https?:\/\/[^\s/]+/.test(server)) wrong(`has the server ${server}, which is no address`);
  if (cluster["insecure-skip-tls-verify"])
    wrong("skips the check of the server's certificate: give its certificate authority");
  const pem = async (fields: Readonly<Record<string, string>>, field: string): Promise<string | undefined> => {
    const data = fields[`${field}-data`];
    if (data) return new TextDecoder().decode(Uint8Array.fromBase64?.(data) ?? Buffer.from(data, "base64"));
    return fields[field] ? tools.readFile(beside(path, fields[field])) : undefined;
  };
  const [ca, cert, key] = [
    await pem(cluster, "certificate-authority"),
    await pem(user, "client-certificate"),
    await pem(user, "client-key"),
  ];
  const token = user["token"] ?? (user["tokenFile"] ? await tools.readFile(beside(path, user["tokenFile"])) : "");
  return {
    server: server.replace(/\/$/, ""),
    namespace: context.namespace ?? "default",
    headers: token ? bearer(token) : {},
    tls: { ...(ca && { ca }), ...(cert && { cert }), ...(key && { key }) },
  };
}

function named<T extends { readonly name: string }>(all: readonly T[] | undefined, name: string): T | undefined {
  return Array.isArray(all) ? all.find((one) => one?.name === name) : undefined;
}

function readYaml(text: string): Kubeconfig | undefined {
  try {
    const value: unknown = parse(text, { maxAliasCount: 10, logLevel: "error" });
    return typeof value === "object" && value !== null ? (value as Kubeconfig) : undefined;
  } catch {
    return undefined;
  }
}

/** Paths in a kubeconfig are meant from its folder. */
function beside(path: string, file: string): string {
  return file.startsWith("/") ? file : `${path.slice(0, path.lastIndexOf("/") + 1)}${file}`;
}

function bearer(token: string): Record<string, string> {
  return { authorization: `Bearer ${token.trim()}` };
}
