// What a PNode's process can still do to its owner once it has given up its rights: asked of real processes, started with
// the flags that `dcnr join` starts itself with.

import assert from "node:assert/strict";
import { spawn, spawnSync } from "node:child_process";
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, describe, it } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import { confinementFlags } from "../../src/cli/machine/apart/confinement.ts";
import { packagePath } from "../../src/cli/machine/software.ts";
import { setAdditionsFolder } from "../../src/core/optional.ts";
import { kernelModuleBytes } from "../../src/engine/kernels/kernel-module.ts";
import { compileGraph } from "../../src/engine/portable/compile.ts";
import { compileText } from "../../src/network/compile.ts";
import { buildTraining } from "../../src/network/graphs/graphs.ts";
import { lentProcesses, ofProcess, standingOf } from "../lent-processes.ts";

const scratch = mkdtempSync(join(tmpdir(), "dcnr-confined-"));
after(() => rmSync(scratch, { recursive: true, force: true }));
const directory = join(scratch, "pnode");
mkdirSync(directory);
setAdditionsFolder(join(scratch, "additions"));
const letter = join(scratch, "letter.txt");
writeFileSync(letter, "dear owner");

describe("a process that computes for strangers", () => {
  const attempts: readonly [string, string, "works" | "ERR_ACCESS_DENIED"][] = [
    ["reads its owner's files", `fs.readFileSync(${JSON.stringify(letter)})`, "ERR_ACCESS_DENIED"],
    ["reads them by a detour", `fs.readFileSync(${JSON.stringify(`${directory}/../letter.txt`)})`, "ERR_ACCESS_DENIED"],
    ["reads keys of the account", `fs.readFileSync("/etc/passwd")`, "ERR_ACCESS_DENIED"],
    [
      "writes outside its directory",
      `fs.writeFileSync(${JSON.stringify(join(scratch, "x"))}, "")`,
      "ERR_ACCESS_DENIED",
    ],
    [
      "changes its own program",
      `fs.writeFileSync(${JSON.stringify(packagePath("src/x.ts"))}, "")`,
      "ERR_ACCESS_DENIED",
    ],
    ["starts programs", `require("node:child_process").execFileSync("id")`, "ERR_ACCESS_DENIED"],
    ["uses its directory", `fs.writeFileSync(${JSON.stringify(join(directory, "x"))}, "")`, "works"],
    ["reads its program", `fs.readFileSync(${JSON.stringify(packagePath("package.json"))})`, "works"],
    ["starts threads", `new (require("node:worker_threads").Worker)("", { eval: true })`, "works"],
  ];
  for (const [what, code, outcome] of attempts)
    it(`${outcome === "works" ? "" : "never "}${what}`, () => {
      const script = `const fs = require("node:fs"); try { ${code}; console.log("works") } catch (error) { console.log(error.code) }`;
      const flags = confinementFlags({ directory, memoryBytes: 0 });
      const { stdout, stderr } = spawnSync(process.execPath, [...flags, "-e", script], { encoding: "utf8" });
      assert.equal(stdout.trim(), outcome, stderr);
    });
});

describe("code that is made from strangers' definitions", () => {
  it("gets the memory of tensors and no function to call, so it reaches nothing else of the process", () => {
    const graphs = ["mlp", "gpt-demo", "conv"].flatMap((name) => {
      const plan = compileText(readFileSync(packagePath(`examples/${name}.yaml`), "utf8"));
      return plan.vnodes.flatMap((vnode) => {
        const { forward, backward } = buildTraining(plan, vnode, { microbatch: 1, lossScale: 1 });
        return backward ? [forward, backward] : [forward];
      });
    });
    const modules = [...graphs.map((graph) => compileGraph(graph).bytes), kernelModuleBytes([0, 0, 0, 0])];
    assert.ok(modules.length > 3);
    for (const bytes of modules)
      for (const { kind, name } of WebAssembly.Module.imports(new WebAssembly.Module(bytes)))
        assert.match(`${kind} ${name}`, /^memory memory\d$/);
  });
});

it("dcnr join gives up its rights, its terminal and its owner's environment, keeping its process id and its settings", {
  skip: !existsSync("/proc/self/cmdline") && "needs /proc",
}, async () => {
  const settings = join(scratch, "config.yaml");
  writeFileSync(settings, "name: from-the-file\napi-key: planted-in-the-file\n");
  const child = spawn(
    process.execPath,
    [packagePath("bin/dcnr.js"), "join", "127.0.0.1:1", "--wait", "--dir", directory],
    {
      env: { ...process.env, DCNR_CONFIG: settings, AWS_SECRET_ACCESS_KEY: "planted", DCNR_API_KEY: "planted" },
      stdio: ["ignore", "ignore", "pipe"],
    },
  );
  let said = "";
  child.stderr.setEncoding("utf8").on("data", (text: string) => {
    said += text;
  });
  const until = async <Found>(find: () => Found | undefined | false): Promise<Found> => {
    for (let tries = 0; ; tries++) {
      const found = find();
      if (found) return found;
      assert.ok(tries < 1_500, "it is not what was started");
      assert.equal(child.exitCode, null, said);
      await sleep(20);
    }
  };
  try {
    const front = child.pid ?? 0;
    const { pnode, gate } = await until(() => {
      const { pnode, gate } = lentProcesses(front);
      return pnode !== undefined && gate !== undefined && { pnode, gate };
    });
    for (const pid of [front, pnode]) {
      const environment = ofProcess(pid, "environ").split("\0");
      assert.ok(environment.includes("DCNR_NAME=from-the-file"));
      assert.equal(environment.filter((one) => one.includes("planted")).length, 0);
    }
    const { session, terminal } = standingOf(pnode) ?? assert.fail(said);
    assert.deepEqual({ session, terminal }, { session: pnode, terminal: 0 });
    for (const pid of [front, pnode, gate])
      assert.match(
        ofProcess(pid, "cmdline"),
        /^[^\0]*node[^\0]*\0(--[^\0]*\0)*--max-old-space-size=\d+\0/,
        "its heap has a bound",
      );
    // It has got as far as its own directory with what is left to it.
    await until(() => existsSync(join(directory, "user.json")));
    assert.match(readFileSync(join(directory, "user.json"), "utf8"), /from-the-file/);
  } finally {
    child.kill("SIGKILL");
  }
});
