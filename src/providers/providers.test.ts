// Every kind of provider passes the one suite, against a fake of its cluster (this machine's own shell for `process` and
// `ssh`), and says in one sentence what is wrong when something is. The real clusters: test/capacity.

import assert from "node:assert/strict";
import { chmod, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, it } from "node:test";
import { runCommand } from "../system/commands.ts";
import { providerConformance } from "./conformance.ts";
import { FakeDocker, FakeKubernetes, FakeRay, FakeSlurm, fakeServer, nothing, smallOffer } from "./fakes.testing.ts";
import { checkSettings, openProvider } from "./kinds.ts";
import type { ProviderSettings, ProviderTools } from "./provider.ts";

const settings = (kind: string, parameters: Record<string, string> = {}, cluster = "net1"): ProviderSettings => ({
  ...{ kind, parameters, cluster, provider: "lab", offers: [smallOffer] },
});

/** A program of the right name that waits to be ended, and a folder for it. */
async function standIn(): Promise<{ readonly folder: string; readonly program: string }> {
  const folder = await mkdtemp(join(tmpdir(), "dcnr-provider-"));
  const program = join(folder, "dcnr");
  const script = `#!/bin/sh\n[ "$1" = version ] && exit 0\necho "joins as $DCNR_LINK"\ntrap 'kill $!; exit 0' TERM\nsleep 300 &\nwait\n`;
  await writeFile(program, script);
  await chmod(program, 0o755);
  return { folder, program };
}

const killPids = async (handle: string) => {
  for (const pid of handle.replace(/^\S+ /, "").split(",")) process.kill(Number(pid), "SIGKILL");
};

describe("the provider process", () => {
  providerConformance(async () => {
    const { folder, program } = await standIn();
    const tools: ProviderTools = { ...nothing, command: runCommand, program, folder: join(folder, "own") };
    return {
      provider: openProvider(settings("process"), tools),
      foreign: openProvider(settings("process", {}, "net2"), tools),
      kill: ({ handle }) => killPids(handle),
      close: () => rm(folder, { recursive: true, force: true }),
    };
  });

  it("describes this machine if nobody does, and hands the link over by the environment alone", async () => {
    const { folder, program } = await standIn();
    const tools: ProviderTools = { ...nothing, command: runCommand, program, folder: join(folder, "own") };
    const provider = openProvider({ ...settings("process"), offers: [] }, tools);
    const [whole] = await provider.offers();
    assert.ok(whole && whole.cores >= 1 && whole.memoryBytes > 2 ** 28);
    const link = `dcnr://x/y?invite=it's "$(id)"`;
    await provider.start(smallOffer, [{ instance: "linkaa-0", link, name: "one" }]);
    let words = "";
    for (let tries = 0; tries < 200 && !words.includes("joins"); tries++) {
      words = await provider.logs({ instance: "linkaa-0", handle: "", state: "running", detail: "" });
      await new Promise((resolve) => setTimeout(resolve, 25));
    }
    assert.equal(words.trim(), `joins as ${link}`);
    const { out } = await runCommand("ps", ["-A", "-ww", "-o", "args="]);
    assert.ok(out.includes("dcnr.net1.lab.linkaa-0") && !out.includes("invite=it's"));
    await provider.stop(await provider.list(), true);
    await rm(folder, { recursive: true, force: true });
  });
});

describe("the provider ssh", () => {
  providerConformance(async () => {
    const { folder, program } = await standIn();
    const own = join(folder, "own");
    // What the far side does: it runs what comes by standard input.
    const tools: ProviderTools = {
      ...nothing,
      command: async (name, args, options) => {
        assert.equal(name, "ssh");
        assert.deepEqual(args.slice(-3), ["--", "maple", "sh -s"]);
        return runCommand("sh", ["-s"], options);
      },
    };
    const parameters = { hosts: "maple", program, folder: own };
    return {
      provider: openProvider(settings("ssh", parameters), tools),
      foreign: openProvider(settings("ssh", parameters, "net2"), tools),
      kill: ({ handle }) => killPids(handle),
      close: () => rm(folder, { recursive: true, force: true }),
    };
  });

  it("says of a host that cannot be reached what ssh said", async () => {
    const command = async () => ({
      code: 255,
      out: "",
      err: "Warning: x\nssh: connect to host maple port 22: Connection refused\n",
    });
    const provider = openProvider(settings("ssh", { hosts: "maple" }), { ...nothing, command });
    const [found] = await provider.test();
    assert.equal(found?.isWell, false);
    assert.match(
      found?.sentence ?? "",
      /host maple cannot be reached: connect to host maple port 22: Connection refused \(try: ssh maple true\)/,
    );
    await assert.rejects(provider.list(), /cannot be reached/, "a host that is away is not one on which nothing runs");
  });
});

describe("the provider slurm", () => {
  providerConformance(async () => {
    const slurm = new FakeSlurm();
    const tools = { ...nothing, command: slurm.command };
    return {
      provider: openProvider(settings("slurm"), tools),
      foreign: openProvider(settings("slurm", {}, "net2"), tools),
      kill: async ({ handle }) => {
        (slurm.jobs.get(handle) as { state: string }).state = "NODE_FAIL";
      },
      close: async () => {},
    };
  });

  it("finds out what nodes there are, asks for GPUs by gres, and starts a batch as one array", async () => {
    const slurm = new FakeSlurm();
    const provider = openProvider(
      { ...settings("slurm", { partition: "gpu" }), offers: [] },
      { ...nothing, command: slurm.command },
    );
    const offers = await provider.offers();
    assert.deepEqual(
      offers.map(({ name, cores, gpus, gpuType, most }) => ({ name, cores, gpus, gpuType, most })),
      [{ name: "8-cores-2-gpus", cores: 8, gpus: 2, gpuType: "fake", most: 2 }],
    );
    const wanted = [0, 1].map((index) => ({ instance: `gpuaaa-${index}`, link: `dcnr://${index}`, name: `n${index}` }));
    await provider.start(offers[0] as (typeof offers)[number], wanted);
    assert.deepEqual([...slurm.jobs.keys()], ["100_0", "100_1"]);
    const { options, script } = [...slurm.jobs.values()][0] as { options: readonly string[]; script: string };
    for (const option of ["--gres=gpu:fake:2", "--array=0-1", "--partition=gpu", "--no-requeue", "--cpus-per-task=8"])
      assert.ok(options.includes(option), `${option} is among ${options.join(" ")}`);
    assert.match(script, /1\) export DCNR_LINK='dcnr:\/\/1'/);
  });

  it("says which command is missing", async () => {
    const [found] = await openProvider(settings("slurm"), { ...nothing, command: runCommand }).test();
    // Where Slurm is installed it fails otherwise, or not at all.
    if (found && !found.isWell) assert.match(found.sentence, /there is no program sinfo .*: install it|sinfo failed/);
  });
});

describe("the provider docker", () => {
  providerConformance(async () => {
    const folder = await mkdtemp(join(tmpdir(), "dcnr-docker-"));
    const docker = new FakeDocker();
    const socket = join(folder, "docker.sock");
    const served = await fakeServer(docker.answer, socket);
    return {
      provider: openProvider(settings("docker", { socket }), nothing),
      foreign: openProvider(settings("docker", { socket }, "net2"), nothing),
      kill: async ({ handle }) => {
        (docker.containers.get(handle) as { state: string }).state = "exited";
      },
      close: async () => {
        for (const { body } of docker.containers.values()) {
          const { ReadonlyRootfs, CapDrop } = body["HostConfig"] as Record<string, unknown>;
          assert.deepEqual([body["User"], ReadonlyRootfs, CapDrop], ["10001", true, ["ALL"]]);
        }
        await served.close();
        await rm(folder, { recursive: true, force: true });
      },
    };
  });

  it("says that nobody is at the socket, and that the image is missing", async () => {
    const [wrong] = await openProvider(settings("docker", { socket: "/tmp/no-such.sock" }), nothing).test();
    assert.match(wrong?.sentence ?? "", /nobody answers at \/tmp\/no-such.sock: there is no such socket/);
    const folder = await mkdtemp(join(tmpdir(), "dcnr-docker-"));
    const socket = join(folder, "docker.sock");
    const served = await fakeServer(new FakeDocker().answer, socket);
    const found = await openProvider(settings("docker", { socket, image: "other" }), nothing).test();
    assert.match(found.at(-1)?.sentence ?? "", /the engine has no image other: build it/);
    await served.close();
    await rm(folder, { recursive: true, force: true });
  });
});

const kubeconfig = (server: string, user: string) => `
current-context: c
contexts: [{ name: c, context: { cluster: k, user: u, namespace: lab } }]
clusters: [{ name: k, cluster: { server: "${server}" } }]
users: [{ name: u, user: { ${user} } }]
`;

describe("the provider kubernetes", () => {
  providerConformance(async () => {
    const cluster = new FakeKubernetes();
    const served = await fakeServer(cluster.answer);
    const tools = { ...nothing, readFile: async () => kubeconfig(served.address, `token: ${cluster.token}`) };
    const parameters = { kubeconfig: "/home/me/.kube/config", "node-selector": "disk=ssd" };
    return {
      provider: openProvider(settings("kubernetes", parameters), tools),
      foreign: openProvider(settings("kubernetes", parameters, "net2"), tools),
      kill: async ({ handle }) => {
        (cluster.jobs.get(handle) as { state: string }).state = "Failed";
      },
      close: () => served.close(),
    };
  });

  it("asks for GPUs as limits on chosen nodes, as a user without rights", async () => {
    const cluster = new FakeKubernetes();
    const served = await fakeServer(cluster.answer);
    const tools = { ...nothing, readFile: async () => kubeconfig(served.address, `token: ${cluster.token}`) };
    const provider = openProvider(settings("kubernetes", { kubeconfig: "/k", "node-selector": "disk=ssd" }), tools);
    await provider.start({ ...smallOffer, gpus: 2 }, [{ instance: "gpuaaa-0", link: "dcnr://x", name: "n" }]);
    const { body } = [...cluster.jobs.values()][0] as unknown as {
      body: { spec: { template: { spec: Record<string, unknown> } } };
    };
    const { nodeSelector, containers, automountServiceAccountToken } = body.spec.template.spec;
    const [container] = containers as [
      { resources: { limits: Record<string, string> }; securityContext: Record<string, unknown> },
    ];
    assert.deepEqual(nodeSelector, { disk: "ssd" });
    assert.equal(container.resources.limits["nvidia.com/gpu"], "2");
    assert.equal(container.securityContext["readOnlyRootFilesystem"], true);
    assert.equal(automountServiceAccountToken, false);
    await served.close();
  });

  it("says what is wrong with the kubeconfig, the credentials, the rights", async () => {
    const cluster = new FakeKubernetes();
    const served = await fakeServer(cluster.answer);
    const sentence = async (text: string | undefined, parameters: Record<string, string> = {}) => {
      const readFile = async () => text ?? Promise.reject(new Error("ENOENT"));
      const own = settings("kubernetes", { kubeconfig: "/k", ...parameters });
      return (await openProvider(own, { ...nothing, readFile }).test()).find(({ isWell }) => !isWell)?.sentence ?? "";
    };
    assert.match(await sentence(undefined), /the kubeconfig \/k cannot be read: ENOENT/);
    assert.match(await sentence("a: ["), /is no YAML/);
    assert.match(await sentence(kubeconfig(served.address, "token: x"), { context: "z" }), /has no context z/);
    assert.match(await sentence(kubeconfig(served.address, "exec: { command: rm }")), /plug-in, which is not run here/);
    assert.match(await sentence(kubeconfig(served.address, "token: wrong")), /does not know us: Unauthorized/);
    assert.match(
      await sentence(kubeconfig(served.address, `token: ${cluster.token}`), { namespace: "other" }),
      /forbids it: .*provider-role/,
    );
    assert.match(
      await sentence(kubeconfig("http://127.0.0.1:1", "token: x")),
      /nobody answers at http:\/\/127.0.0.1:1: the connection is refused/,
    );
    await served.close();
  });
});

describe("the provider ray", () => {
  providerConformance(async () => {
    const cluster = new FakeRay();
    const served = await fakeServer(cluster.answer);
    const tools = { ...nothing, readFile: async () => `${cluster.token}\n` };
    const parameters = { address: served.address, "token-file": "/t" };
    return {
      provider: openProvider(settings("ray", parameters), tools),
      foreign: openProvider(settings("ray", parameters, "net2"), tools),
      kill: async ({ handle }) => {
        (cluster.jobs.get(handle) as { state: string }).state = "FAILED";
      },
      close: () => served.close(),
    };
  });

  it("starts nothing on a cluster that asks nobody for a token", async () => {
    const cluster = new FakeRay();
    cluster.isOpen = true;
    const served = await fakeServer(cluster.answer);
    const provider = openProvider(settings("ray", { address: served.address, "token-file": "/t" }), {
      ...nothing,
      readFile: async () => "token",
    });
    await assert.rejects(
      provider.start(smallOffer, []),
      /answers without a token, so anybody could run commands there/,
    );
    assert.match((await provider.test())[0]?.sentence ?? "", /RAY_AUTH_MODE=token/);
    await served.close();
  });
});

describe("settings of providers", () => {
  const refused = (kind: string, parameters: Record<string, string>, sentence: RegExp) =>
    assert.throws(() => checkSettings(settings(kind, parameters)), sentence);

  it("are refused with a sentence where they could mean anything else than what they are for", () => {
    refused("aws", {}, /no kind of provider "aws": process, docker, slurm, kubernetes, ssh, ray/);
    refused("process", { program: "/bin/sh" }, /program takes dcnr, or its absolute path, not "\/bin\/sh"/);
    refused("process", { program: "/a/../../bin/dcnr" }, /program takes/);
    refused("process", { hosts: "x" }, /take program, folder; not "hosts"/);
    refused("slurm", { partition: "-x; rm" }, /partition takes a name/);
    refused("ssh", {}, /need hosts: --set hosts=/);
    refused("ssh", { hosts: "-oProxyCommand=id" }, /hosts takes HOST,HOST/);
    refused("ray", { address: "http://x:1/y?z", "token-file": "/t" }, /address takes/);
    refused("kubernetes", { "node-selector": "a" }, /node-selector takes KEY=VALUE/);
    refused("process", { constructor: "x" }, /not "constructor"/);
    const offers = (more: object) => ({ ...settings("process"), offers: [{ ...smallOffer, ...more }] });
    assert.throws(() => checkSettings(offers({ cores: -1 })), /offer small: cores is -1: 1 to 4096/);
    assert.throws(() => checkSettings(offers({ pricePerHour: Number.NaN })), /price is NaN/);
    assert.throws(
      () => checkSettings({ ...settings("process"), offers: [smallOffer, smallOffer] }),
      /two offers are called small/,
    );
    assert.throws(() => checkSettings({ ...settings("process"), provider: "Lab One" }), /not "Lab One"/);
    checkSettings(settings("ssh", { hosts: "a,b.example", user: "me", "identity-file": "/home/me/.ssh/id_ed25519" }));
  });
});
