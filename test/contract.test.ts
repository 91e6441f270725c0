// The wire contract: well formed, compatible with what was released, and the generated code is up to date.

import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { globSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";

function buf(...args: string[]) {
  const { status, stdout, stderr } = spawnSync("node_modules/.bin/buf", args, { encoding: "utf8" });
  return { status, text: `${stdout}${stderr}` };
}

test("the contract passes buf's lint", () => {
  const { status, text } = buf("lint");
  assert.equal(status, 0, text);
});

test("the contract breaks nothing that was released", () => {
  const { status, text } = buf("breaking", "--against", "proto/released/v1.binpb");
  assert.equal(status, 0, text);
});

test("a field that changes its number would be noticed", () => {
  const folder = mkdtempSync(join(tmpdir(), "dcnr-contract-"));
  try {
    const copy = spawnSync("cp", ["-r", "proto", "buf.yaml", folder]);
    assert.equal(copy.status, 0);
    const changed = readFileSync("proto/dcnr/v1/system.proto", "utf8").replace("string id = 5;", "string id = 6;");
    spawnSync("tee", [join(folder, "proto/dcnr/v1/system.proto")], { input: changed });
    const { status } = buf("breaking", folder, "--against", "proto/released/v1.binpb");
    assert.notEqual(status, 0);
  } finally {
    rmSync(folder, { recursive: true });
  }
});

test("the generated code is what the contract says", () => {
  const folder = mkdtempSync(join(tmpdir(), "dcnr-generated-"));
  try {
    const { status, text } = buf("generate", "--output", folder);
    assert.equal(status, 0, text);
    const files = globSync("src/protocol/gen/**/*.ts");
    assert.ok(files.length > 5);
    for (const file of files)
      assert.equal(
        readFileSync(join(folder, file), "utf8"),
        readFileSync(file, "utf8"),
        `${file} is stale: npm run generate`,
      );
  } finally {
    rmSync(folder, { recursive: true });
  }
});
