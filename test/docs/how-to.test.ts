// A first-time walk of every how-to, in a folder that has what its readers have, on one network: blocks marked `sh` run in their
// order and give what the page says. Blocks of commands without the mark need what a test has not; a comment after each says what.

import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { readdirSync } from "node:fs";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, describe, test } from "node:test";
import { codeBlocks } from "../markdown.ts";
import { putBelongings } from "./belongings.ts";
import { bringUp, Reader, root, run, walkPage } from "./walk.ts";

/** In this order: some use what others have brought. `use-from-python` is walked below. */
const pages = [
  ...[
    "define-a-network",
    "bring-data",
    "data-pipelines",
    "import-a-model",
    "give-rights",
    "jobs",
    "tune",
    "trust",
    "credits",
  ],
  ...["monitor", "gpus", "join-at-home", "capacity", "lend-a-browser", "run-on-a-cluster", "several-orchestrators"],
];
const python = process.env["DCNR_TEST_PYTHON"] ?? "python3";
const noPython = spawnSync(python, ["-c", "import sys; sys.exit(sys.version_info < (3, 9))"]).status !== 0;

describe("how-tos", () => {
  let network: Awaited<ReturnType<typeof bringUp>>;
  let reader: Reader;

  before(async () => {
    const folder = await mkdtemp(join(tmpdir(), "dcnr-how-to-"));
    putBelongings(folder);
    network = await bringUp("npx dcnr up --pnodes 1", folder);
    // Names that a page gives to machines of others: here they are this one.
    reader = new Reader(folder, network.environment, [
      [/\bhttps:\/\/lab\.example:7700/g, `http://${network.address}`],
      [/\b(lab\.example|head):7700/g, network.address],
      [/0\.0\.0\.0:770\d/g, "127.0.0.1:0"],
      [/\/var\/lib\/dcnr/g, "./cluster"],
    ]);
  });

  after(async () => {
    await reader?.leave();
    await network?.stop();
    await rm(reader?.folder ?? "", { recursive: true, force: true });
  });

  test("are all walked", () => {
    const there = readdirSync(join(root, "docs/how-to")).map((name) => name.replace(/\.md$/, ""));
    assert.deepEqual(there, [...pages, "use-from-python"].sort());
    for (const page of pages)
      assert.ok(
        codeBlocks(join(root, `docs/how-to/${page}.md`)).some(({ info }) => info.startsWith("sh")),
        page,
      );
  });

  test("say why, where commands are not walked", () => {
    const commands = /^(npx |dcnr |docker |kubectl |srun |pip |curl )/m;
    const silent = [...pages, "use-from-python"].flatMap((page) =>
      codeBlocks(join(root, `docs/how-to/${page}.md`))
        .filter(({ info, code, notWalked }) => info === "" && commands.test(code) && notWalked === undefined)
        .map(({ code }) => `${page}: ${code.split("\n")[0]}`),
    );
    assert.deepEqual(silent, []);
  });

  for (const page of pages) walkPage(`docs/how-to/${page}.md`, () => reader);

  test("use-from-python, all its lines", { skip: noPython && `${python} is no Python 3.9 or newer` }, async () => {
    const lines = codeBlocks(join(root, "docs/how-to/use-from-python.md")).filter(({ info }) => info === "python");
    const program = [belongings, ...lines.map(({ code }) => code)]
      .join("\n")
      .replace("127.0.0.1:7700", network.address)
      // What import-a-model has left here, and names that other pages have not taken.
      .replaceAll(/"gpt"|"chatty"/g, '"qwen"')
      .replaceAll(/"(flowers|digits)"/g, '"own-$1"');
    const environment = {
      ...network.environment,
      PYTHONPATH: join(root, "python"),
      PYTHONDONTWRITEBYTECODE: "1",
      PROGRAM: program,
    };
    const ran = await run(`${python} -c "$PROGRAM"`, environment, reader.folder);
    assert.equal(ran.code, 0, ran.output);
  });
});

/** What the reader of the Python page has; lists do where there is neither NumPy nor pandas. */
const belongings = `
images = [[(i * 7 + j) % 5 / 5 for j in range(784)] for i in range(100)]
labels = [i % 10 for i in range(100)]
class Frame(dict):
    columns = property(lambda self: list(self))
    def drop(self, columns):
        return [list(row) for row in zip(*(values for name, values in self.items() if name not in columns))]
frame = Frame(length=[1.0, 2.0, 3.0], width=[0.5, 0.6, 0.7], species=["a", "b", "a"])
`;
