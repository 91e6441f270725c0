// What a page loads has no built-in module of Node.

import assert from "node:assert/strict";
import { test } from "node:test";
import { type BuildOptions, build } from "esbuild";

/** The workers of a page: they lead to all rooms that a PNode needs. */
const entries = ["pnode", "engine", "aside", "pulse"].map((worker) => `src/tab/${worker}-worker.ts`);

const options: BuildOptions = { bundle: true, write: false, format: "esm", platform: "browser", target: "es2024" };

test("a PNode and the portable engine need nothing of Node", async () => {
  const { outputFiles, metafile } = await build({
    ...options,
    entryPoints: entries,
    outdir: "out",
    metafile: true,
    logLevel: "silent",
  });
  const text = (outputFiles ?? []).map((file) => file.text).join("\n");
  assert.doesNotMatch(text, /["'`]node:/);
  // core/bytes.ts asks first whether it is there, core/keys.ts is in Node by then.
  const named = text.match(/\bBuffer\.\w+/g) ?? [];
  assert.deepEqual([...new Set(named)].sort(), ["Buffer.allocUnsafeSlow", "Buffer.from"]);
  assert.ok(Object.keys(metafile.inputs).length > 250, "the test sees the rooms");
});

test("the worker that reads what strangers wrote knows all works of a PNode", async () => {
  const { metafile } = await build({ ...options, entryPoints: entries, outdir: "out", metafile: true });
  const worksOf = (worker: string) => {
    const { inputs } = metafile.outputs[`out/${worker}-worker.js`] ?? assert.fail(`there is no ${worker}`);
    return Object.keys(inputs).filter((file) => file.endsWith("works.ts"));
  };
  const needed = worksOf("pnode");
  assert.ok(needed.length > 2, "the test sees works");
  const known = worksOf("aside");
  assert.deepEqual(
    needed.filter((file) => !known.includes(file)),
    [],
  );
});

test("a file that imports what Node alone has is found out", async () => {
  const stdin = { contents: 'import { readFileSync } from "node:fs"; readFileSync("x");', resolveDir: "." };
  await assert.rejects(build({ ...options, stdin, logLevel: "silent" }), /node:fs/);
});
