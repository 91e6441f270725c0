// The package's modules share files. Whatever asks for its own address has to do so in a form that holds there, and the build says so.

import assert from "node:assert/strict";
import { test } from "node:test";
import { addressedIn } from "../scripts/bundle.ts";

const own = "import.meta";

test("threads, processes and works get files of their own", () => {
  const text = `const one = moduleBeside("./one.ts", ${own}.url);
    const two = new Worker(moduleBeside(
      "./two-thread.ts",
      ${own}.url,
    ));
    export const reading = { lane, module: ${own}.url, name: "reading" };`;
  assert.deepEqual(addressedIn("src/room/reads.ts", text), {
    starts: ["src/room/one.ts", "src/room/two-thread.ts"],
    hasWorks: true,
  });
});

test("a package is looked for from anywhere in the program", () => {
  const text = `createRequire(${own}.url).resolve("mnist"); let folder = new URL("./", ${own}.url);`;
  assert.deepEqual(addressedIn("src/a.ts", text), { starts: [], hasWorks: false });
});

test("what would not be found in the package fails the build", () => {
  for (const wrong of [
    `new Worker(new URL("./thread.ts", ${own}.url));`,
    `readFileSync(new URL("facts.json", ${own}.url));`,
    `if (${own}.main) run();`,
    `join(${own}.dirname, "..");`,
    `const here = ${own}.url;`,
  ])
    assert.throws(() => addressedIn("src/room/a.ts", wrong), /^DcnrError: src\/room\/a\.ts: .*does not hold/);
});
