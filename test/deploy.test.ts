// The files of deploy/ say what they must, as far as that shows without a container runtime or a cluster: they parse, their command
// lines have flags that there are, selectors and policies name what is there, and nobody runs with rights.

import assert from "node:assert/strict";
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, it } from "node:test";
import { parse, parseAllDocuments } from "yaml";
import { commonOptions } from "../src/cli/command.ts";
import { findCommand } from "../src/cli/commands.ts";

const folder = "deploy/kubernetes";
const text = (path: string) => readFileSync(path, "utf8");

// biome-ignore lint/suspicious/noExplicitAny: these are other people's formats, looked into where it matters.
type Any = any;

const documents: Any[] = readdirSync(folder)
  .filter((name) => name.endsWith(".yaml"))
  .flatMap((name) =>
    parseAllDocuments(text(join(folder, name))).map((document) => {
      assert.deepEqual(document.errors, [], name);
      return { file: name, ...(document.toJS() as object) };
    }),
  );
const ofKind = (kind: string) => documents.filter((one) => one.kind === kind);
const workloads = [...ofKind("Deployment"), ...ofKind("StatefulSet")];

/** Every word that begins with -- is a flag of the command, and what needs a value has one. */
async function checkCommandLine(words: readonly string[]): Promise<void> {
  const found = findCommand(words);
  assert.ok(found, `there is no command ${words.join(" ")}`);
  const { command } = await found.entry.load();
  const options = { ...commonOptions, ...command.options };
  for (const word of found.rest.filter((one) => one.startsWith("--"))) {
    const name = word.slice(2).split("=", 1)[0] as string;
    assert.ok(options[name], `dcnr ${found.entry.words} has no flag --${name}`);
  }
}

describe("kubernetes", () => {
  it("lists every file that is applied, and all of them are there", () => {
    const [kustomization] = ofKind("Kustomization");
    for (const name of kustomization.resources) assert.ok(existsSync(join(folder, name)), name);
    const left = ["kustomization.yaml", "provider-role.yaml"];
    assert.deepEqual([...kustomization.resources, ...left].sort(), readdirSync(folder).sort());
    assert.notEqual(
      kustomization.images[0].newTag,
      "latest",
      "latest is pulled anew each time, and is another one then",
    );
  });

  it("runs orchestrators and PNodes without rights, with probes, bounds and flags that there are", async () => {
    assert.equal(workloads.length, 2);
    for (const { spec, file } of workloads) {
      const { spec: pod } = spec.template;
      assert.equal(pod.securityContext.runAsNonRoot, true, file);
      assert.equal(pod.automountServiceAccountToken, false, file);
      const [container] = pod.containers;
      const { readOnlyRootFilesystem, allowPrivilegeEscalation, capabilities } = container.securityContext;
      assert.deepEqual([readOnlyRootFilesystem, allowPrivilegeEscalation, capabilities.drop], [true, false, ["ALL"]]);
      const ports = new Set(container.ports.map(({ name }: Any) => name));
      for (const probe of [container.readinessProbe, container.livenessProbe]) {
        assert.ok(ports.has(probe.httpGet.port), file);
        assert.equal(probe.httpGet.scheme, "HTTPS");
      }
      assert.ok(container.resources.requests.cpu && container.resources.limits.memory);
      await checkCommandLine(container.args);
      const volumes = [
        ...(pod.volumes ?? []),
        ...(spec.volumeClaimTemplates ?? []).map(({ metadata }: Any) => metadata),
      ];
      for (const { name } of container.volumeMounts)
        assert.ok(
          volumes.some((one: Any) => one.name === name),
          `${file}: ${name}`,
        );
    }
  });

  it("selects by labels that pods have, and leaves an orchestrator whatever is drained", () => {
    const labels = workloads.map(({ spec }) => spec.template.metadata.labels.app);
    const selectors = [
      ...ofKind("Service").map(({ spec }) => spec.selector),
      ...ofKind("PodDisruptionBudget").map(({ spec }) => spec.selector.matchLabels),
      ...ofKind("NetworkPolicy").map(({ spec }) => spec.podSelector.matchLabels),
    ];
    assert.equal(selectors.length, 6);
    for (const { app } of selectors) assert.ok(labels.includes(app), app);
    const [orchestrator] = ofKind("PodDisruptionBudget");
    assert.ok(orchestrator.spec.minAvailable < workloads.find(({ kind }) => kind === "Deployment").spec.replicas);
    const ports = new Set(
      workloads.flatMap(({ spec }) => spec.template.spec.containers[0].ports.map((one: Any) => one.containerPort)),
    );
    for (const { spec } of ofKind("NetworkPolicy"))
      for (const { ports: own } of spec.ingress) for (const { port } of own) assert.ok(ports.has(port), `${port}`);
  });

  it("gives whoever starts Jobs the rights that the provider uses, and no others", () => {
    const [role] = ofKind("Role");
    assert.deepEqual(
      role.rules.map(({ resources, verbs }: Any) => [resources.join(), verbs.join()]),
      [
        ["jobs", "create,get,list,watch,delete"],
        ["pods,pods/log", "get,list"],
      ],
    );
  });
});

describe("containers", () => {
  const dockerfile = text("deploy/Dockerfile");

  it("are built from the lockfile, and run as nobody in particular", () => {
    assert.match(dockerfile, /COPY package\.json package-lock\.json/);
    const installs = dockerfile.match(/npm (?:ci|install|i)\b/g) ?? [];
    assert.deepEqual(new Set(installs), new Set(["npm ci"]), "nothing is taken that the lockfile does not name");
    const [, last = ""] = dockerfile.split(/^FROM .*$/m).slice(-2);
    const user = /^USER (\d+)/m.exec(last)?.[1];
    assert.equal(user, "10001");
    assert.match(text(".dockerignore"), /^node_modules$/m);
    // What the providers start as.
    assert.match(text("src/providers/docker.ts"), /"10001"/);
  });

  it("of compose have flags that there are, volumes that are declared, and nothing to write but their own", async () => {
    const compose: Any = parse(text("deploy/compose.yaml"), { merge: true });
    const own = Object.entries<Any>(compose.services).filter(([, { image }]) => image?.startsWith("dcnr"));
    assert.equal(own.length, 5);
    for (const [name, { command, read_only, cap_drop, volumes, image }] of own) {
      await checkCommandLine(command);
      assert.deepEqual([read_only, cap_drop], [true, ["ALL"]], name);
      assert.notEqual(image, "dcnr", "an image without a tag is the latest of whoever pushed last");
      for (const volume of volumes)
        assert.ok((volume as string).split(":")[0]! in compose.volumes, `${name}: ${volume}`);
    }
    for (const [, { depends_on = [] }] of Object.entries<Any>(compose.services))
      for (const other of Array.isArray(depends_on) ? depends_on : Object.keys(depends_on))
        assert.ok(compose.services[other]);
  });
});
