import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { mkdirSync, mkdtempSync, realpathSync, rmSync, symlinkSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, it } from "node:test";
import { confinedEnvironment, confinementFlags, frontFlags, gateFlags, programFolders } from "./confinement.ts";

describe("the environment of a process that computes for strangers", () => {
  const options = {
    cpus: { type: "number", summary: "" },
    reach: { type: "string", summary: "", many: true },
  } as const;
  const of = (environment: NodeJS.ProcessEnv, values: Record<string, string | number> = {}) =>
    confinedEnvironment(environment, "/lent", { fallback: (name) => values[name] }, options);

  it("has nothing of its owner's but where things are, and no keys at all", () => {
    const kept = { HOME: "/home/a", XDG_DATA_HOME: "/d", LC_ALL: "C", DCNR_LOG_LEVEL: "warn", OTEL_SERVICE_NAME: "x" };
    const left = { AWS_SECRET_ACCESS_KEY: "s", SSH_AUTH_SOCK: "/s", DCNR_API_KEY: "k", NODE_OPTIONS: "--import x" };
    const headers = { OTEL_EXPORTER_OTLP_TOKEN: "t", GITHUB_TOKEN: "t", PATH: "/bin" };
    assert.deepEqual(of({ ...kept, ...left, ...headers }), { ...kept, DCNR_CONFIG: "/lent/no-settings.yaml" });
  });

  it("has the settings of a file that cannot be read any more", () => {
    const found = of({ DCNR_CONFIG: "/home/a/config.yaml" }, { cpus: 3, reach: "10.0.0.0/8", "api-key": "k" });
    assert.deepEqual(found, {
      DCNR_CPUS: "3",
      DCNR_REACH: "10.0.0.0/8",
      DCNR_CONFIG: "/lent/no-settings.yaml",
    });
  });
});

describe("the flags of such a process", () => {
  it("bound the heap, as those of its gate and of the process before it do", () => {
    const directory = tmpdir();
    const bound = (flags: readonly string[]) =>
      flags.flatMap((flag) => /^--max-old-space-size=(\d+)$/.exec(flag)?.[1] ?? []).map(Number);
    assert.deepEqual(bound(confinementFlags({ directory, memoryBytes: 8 * 2 ** 30 })), [4_096]);
    assert.deepEqual(bound(confinementFlags({ directory, memoryBytes: 2 ** 20 })), [512]);
    assert.deepEqual(bound(confinementFlags({ directory, memoryBytes: 0 })), [4_096]);
    assert.deepEqual(bound(gateFlags(directory)), [256]);
    assert.deepEqual(bound(frontFlags), [64]);
  });

  it("keep what lives briefly small in every thread, whatever was made there", () => {
    const flags = confinementFlags({ directory: tmpdir(), memoryBytes: 0 }).filter(
      (flag) => !/permission|allow/.test(flag),
    );
    const work = `
      let kept = [];
      for (let i = 0; i < 3e6; i++) { kept.push({ i }); if (kept.length > 2e5) kept = []; }
      const { getHeapSpaceStatistics } = require("node:v8");
      const young = getHeapSpaceStatistics().filter(({ space_name }) => space_name === "new_space");
      console.log(young[0].physical_space_size / 2 ** 20);`;
    const program = `new (require("node:worker_threads").Worker)(${JSON.stringify(work)}, { eval: true });${work}`;
    const { stdout } = spawnSync(process.execPath, [...flags, "-e", program], { encoding: "utf8" });
    const mebibytes = stdout.trim().split("\n").map(Number);
    assert.equal(mebibytes.length, 2);
    for (const each of mebibytes) assert.ok(each > 0 && each <= 4, `a young generation of ${each} MB`);
  });
});

describe("what such a process may read of its program", () => {
  it("is the packages that it uses too, where their folder is a link to another place", () => {
    const folder = realpathSync(mkdtempSync(join(tmpdir(), "dcnr-confinement-")));
    const [tree, clone] = [join(folder, "tree"), join(folder, "clone")];
    try {
      mkdirSync(join(clone, "node_modules"), { recursive: true });
      mkdirSync(tree);
      assert.deepEqual(programFolders(`${clone}/`), [clone]);
      symlinkSync(join(clone, "node_modules"), join(tree, "node_modules"));
      assert.deepEqual(programFolders(tree), [tree, join(clone, "node_modules")]);
      assert.deepEqual(programFolders("/app/node_modules/dcnr/"), ["/app/node_modules"]);
    } finally {
      rmSync(folder, { recursive: true });
    }
  });
});
