// A real Kubernetes API on this machine: etcd and kube-apiserver on loopback, with certificates and accounts of its own. There is
// no Debian package of kube-apiserver: it is taken from KUBE_APISERVER or the path (docs/how-to/capacity.md says how it is built).

import { type ChildProcess, execFile, spawn } from "node:child_process";
import { createWriteStream } from "node:fs";
import { mkdir, readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { promisify } from "node:util";
import { runCommand } from "../../src/system/commands.ts";
import { httpCall } from "../../src/system/wires/http-call.ts";
import { freePort, until } from "./scenario.ts";

const run = promisify(execFile);
const apiserver = process.env["KUBE_APISERVER"] || "kube-apiserver";
const adminToken = "administrator-of-a-test";

/** Why it cannot be had here; undefined if it can. */
export async function kubernetesMissing(): Promise<string | undefined> {
  for (const program of ["etcd", apiserver, "openssl"]) {
    const { code } = await runCommand("sh", ["-c", `command -v ${program}`]);
    if (code !== 0)
      return `${program} is not installed here (Debian: etcd-server; kube-apiserver is built from source)`;
  }
  return undefined;
}

export interface KubernetesApi {
  readonly server: string;
  /** As the administrator; fails with what the server said. */
  call<T = unknown>(method: string, path: string, body?: unknown): Promise<T>;
  /** A kubeconfig with which a service account of a namespace calls. */
  kubeconfig(namespace: string, account: string): Promise<string>;
  stop(): Promise<void>;
}

/** An authority, the server's certificate for loopback, and a pair of keys for tokens of service accounts. */
async function certificates(folder: string): Promise<void> {
  const openssl = (...words: string[]) => run("openssl", words, { cwd: folder });
  const curve = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2"];
  await openssl("req", "-x509", ...curve, "-subj", "/CN=test-authority", "-keyout", "ca.key", "-out", "ca.crt");
  await openssl("req", ...curve, "-subj", "/CN=kube-apiserver", "-keyout", "server.key", "-out", "server.csr");
  await writeFile(join(folder, "server.ext"), "subjectAltName=IP:127.0.0.1\n");
  await openssl(
    ...["x509", "-req", "-in", "server.csr", "-CA", "ca.crt", "-CAkey", "ca.key", "-CAcreateserial", "-days", "2"],
    ...["-extfile", "server.ext", "-out", "server.crt"],
  );
  await openssl("ecparam", "-genkey", "-name", "prime256v1", "-noout", "-out", "accounts.key");
  await openssl("ec", "-in", "accounts.key", "-pubout", "-out", "accounts.pub");
}

function daemon(folder: string, program: string, args: readonly string[]): ChildProcess {
  const child = spawn(program, args, { cwd: folder, stdio: ["ignore", "pipe", "pipe"] });
  const log = createWriteStream(join(folder, `${program.split("/").at(-1)}.log`));
  child.stdout?.pipe(log);
  child.stderr?.pipe(log);
  return child;
}

async function ended(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return;
  const exit = new Promise((resolve) => child.once("exit", resolve));
  child.kill("SIGTERM");
  await exit;
}

export async function startKubernetes(folder: string): Promise<KubernetesApi> {
  await certificates(folder);
  await writeFile(join(folder, "tokens.csv"), `${adminToken},admin,admin,system:masters\n`, { mode: 0o600 });
  await mkdir(join(folder, "etcd"));
  const [etcdPort, peerPort, port] = [await freePort(), await freePort(), await freePort()];
  const etcdAddress = `http://127.0.0.1:${etcdPort}`;
  const etcd = daemon(folder, "etcd", [
    ...[
      "--data-dir",
      join(folder, "etcd"),
      "--listen-client-urls",
      etcdAddress,
      "--advertise-client-urls",
      etcdAddress,
    ],
    ...["--listen-peer-urls", `http://127.0.0.1:${peerPort}`, "--name", "one"],
    ...["--initial-advertise-peer-urls", `http://127.0.0.1:${peerPort}`],
    ...["--initial-cluster", `one=http://127.0.0.1:${peerPort}`],
  ]);
  const api = daemon(folder, apiserver, [
    ...[`--etcd-servers=${etcdAddress}`, `--secure-port=${port}`, "--bind-address=127.0.0.1"],
    ...["--tls-cert-file=server.crt", "--tls-private-key-file=server.key", "--token-auth-file=tokens.csv"],
    ...["--authorization-mode=RBAC", "--anonymous-auth=false", "--service-cluster-ip-range=10.0.0.0/24"],
    ...["--service-account-issuer=https://kubernetes.default.svc", "--service-account-signing-key-file=accounts.key"],
    ...["--service-account-key-file=accounts.pub", "--endpoint-reconciler-type=none"],
  ]);
  const server = `https://127.0.0.1:${port}`;
  const ca = await readFile(join(folder, "ca.crt"), "utf8");
  const call = async <T>(method: string, path: string, body?: unknown): Promise<T> => {
    const headers = { authorization: `Bearer ${adminToken}` };
    const { status, text } = await httpCall({ method, url: `${server}${path}`, headers, body, tls: { ca } });
    if (status >= 300) throw new Error(`${method} ${path}: ${status} ${text.slice(0, 2_000)}`);
    return JSON.parse(text) as T;
  };
  const stop = async () => {
    await ended(api);
    await ended(etcd);
  };
  /** With its own roles in place. */
  const isReady = async () => {
    if (api.exitCode !== null) throw new Error(`kube-apiserver ended with ${api.exitCode}`);
    const headers = { authorization: `Bearer ${adminToken}` };
    const asked = httpCall({ method: "GET", url: `${server}/readyz`, headers, tls: { ca } });
    const { status } = await asked.catch(() => ({ status: 0 }));
    return status === 200;
  };
  await until("the Kubernetes API answers", isReady).catch(async (error: unknown) => {
    await stop();
    throw error;
  });
  const kubeconfig = async (namespace: string, account: string) => {
    const path = `/api/v1/namespaces/${namespace}/serviceaccounts/${account}/token`;
    const { status } = await call<{ status: { token: string } }>("POST", path, {
      ...{ apiVersion: "authentication.k8s.io/v1", kind: "TokenRequest", spec: {} },
    });
    const file = join(folder, `${account}.yaml`);
    const cluster = { server, "certificate-authority": "ca.crt" };
    const config = {
      ...{ apiVersion: "v1", kind: "Config", "current-context": "test" },
      contexts: [{ name: "test", context: { cluster: "test", user: account, namespace } }],
      clusters: [{ name: "test", cluster }],
      users: [{ name: account, user: { token: status.token } }],
    };
    await writeFile(file, JSON.stringify(config), { mode: 0o600 });
    return file;
  };
  return { server, call, kubeconfig, stop };
}
