// The documentation is true: the tutorial's commands run, the SDK's examples run, the reference is what the program
// says of itself, and every relative link leads somewhere.

import assert from "node:assert/strict";
import { existsSync, globSync, readFileSync } from "node:fs";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { basename, dirname, join } from "node:path";
import { after, before, describe, test } from "node:test";
import { parseAllDocuments } from "yaml";
import { referencePages } from "../scripts/reference.ts";
import { commonOptions } from "../src/cli/command.ts";
import { findCommand } from "../src/cli/commands.ts";
import { bringUp, root, run } from "./docs/walk.ts";
import { codeBlocks, headingAnchors, linksOf } from "./markdown.ts";

describe("the tutorial and the examples", () => {
  let directory: string;
  let network: Awaited<ReturnType<typeof bringUp>>;
  /** What the reader is told to remember: session ids, roots, process ids. */
  const remembered = new Map<string, string>();
  const fill = (text: string) =>
    [...remembered].reduce((filled, [name, value]) => filled.replaceAll(new RegExp(`\\b${name}\\b`, "g"), value), text);

  before(async () => {
    directory = await mkdtemp(join(tmpdir(), "dcnr-tutorial-"));
    const staying = codeBlocks("docs/tutorial.md").find(({ info }) => info === "sh stays");
    network = await bringUp(staying?.code ?? "", directory);
    for (const { name, pid } of network.pids) remembered.set(name.toUpperCase(), pid);
  });

  after(async () => {
    await network?.stop();
    await rm(directory, { recursive: true, force: true });
  });

  for (const [index, block] of codeBlocks("docs/tutorial.md").entries()) {
    // What the clone has done already, and what `before` did.
    if (block.info !== "sh" || block.code === "npm install") continue;
    test(`tutorial, block ${index + 1}: ${block.code.split("\n")[0]}`, async () => {
      let output = "";
      for (const command of block.code.split("\n")) {
        const ran = await run(fill(command), network.environment);
        assert.equal(ran.code, 0, `${fill(command)}\n${ran.output}`);
        output += ran.output;
      }
      if (block.expect === undefined) return;
      const found = new RegExp(fill(block.expect)).exec(output);
      assert.ok(found, `expected ${fill(block.expect)} in:\n${output}`);
      for (const [name, value] of Object.entries(found.groups ?? {})) remembered.set(name, value);
    });
  }

  for (const [name, words, expected] of [
    ["networks", [], /refused \(invalid_argument\): .*liner/],
    ["datasets", [], /my-circle: 400 samples, splits train, validation/],
    ["sessions", [], /done after 60 steps[\s\S]*step root [0-9a-f]{64}/],
    ["generate", ["ahab", "The whale"], /The whale[\s\S]+after \d+ tokens/],
  ] as const)
    test(`examples/sdk/${name}.ts`, async () => {
      const command = [process.execPath, "--conditions=dcnr-source", `examples/sdk/${name}.ts`];
      const quoted = [...command, ...words.map((word) => `'${word}'`), network.address].join(" ");
      const ran = await run(quoted, network.environment);
      assert.equal(ran.code, 0, ran.output);
      assert.match(ran.output, expected);
    });
});

describe("the reference", () => {
  test("is what the program says of itself", async () => {
    for (const [path, text] of await referencePages())
      assert.ok(readFileSync(join(root, path), "utf8") === text, `${path} is behind: npm run reference`);
  });
});

/** Flags of a command line that its command does not have. */
async function unknownFlags(line: readonly string[]): Promise<string[]> {
  const found = findCommand(line);
  if (!found) return [`there is no command ${line.slice(0, 2).join(" ")}`];
  const { command } = await found.entry.load();
  const known = { ...commonOptions, ...command.options };
  const flags = found.rest.filter((word) => word.startsWith("--")).map((word) => word.slice(2).split("=")[0] ?? "");
  return flags.filter((flag) => !(flag in known)).map((flag) => `dcnr ${found.entry.words} has no flag --${flag}`);
}

describe("deployment files", () => {
  const containers = globSync("deploy/**/*.yaml", { cwd: root }).flatMap((file) =>
    parseAllDocuments(readFileSync(join(root, file), "utf8"), { merge: true }).map((document) => {
      assert.deepEqual(document.errors, [], file);
      return document.toJS() as Record<string, unknown>;
    }),
  );

  test("name commands and flags that exist", async () => {
    const lines: string[][] = [];
    const collect = (value: unknown): void => {
      if (Array.isArray(value) && (value[0] === "orchestrator" || value[0] === "join")) lines.push(value.map(String));
      else if (typeof value === "object" && value !== null) for (const inner of Object.values(value)) collect(inner);
    };
    // Lists of services that others depend on look alike, and have no flags.
    for (const one of containers) collect(one);
    assert.ok(lines.length >= 7);
    for (const line of lines) assert.deepEqual(await unknownFlags(line), []);
  });
});

/** What the threat model promises, a test shows. These promise nothing: they say what others can do. */
const warnings: readonly string[] = [
  ...["DCNR lets strangers compute together", "The machines that compute your prompt can read it"],
  ...["Others can find out that a question like yours was asked", "A vector of a text", "Do not send anything"],
  ...["PNodes see the data", "PNodes hold weights", "A PNode can lie", "`none` (the default", "`sampled` (the default"],
  ...["`checked`: every interval", "Auditors see weights and activations", "Two machines count as strangers"],
  ...["A VNode without weights has no state to measure", "Answers of served models are not audited"],
  ...["What remains", "Whoever takes that process over", "Where the system keeps no boundary", "It runs as your user"],
  ...["It writes its own directory", "PNodes of `dcnr up` and of providers", "Memory: each heap has a bound"],
  ...["A GPU that you lend", "Peers learn your IP address"],
  ...["An orchestrator calls the addresses back"],
  ...["The report on availability names machines"],
  ...["Orchestrators and PNodes tell each other who is there", "What follows from gossip is where to look"],
  ...[
    "Whoever repeats an answer reads prompt and answer",
    "Drawn answers wait in the memory",
    "Embeddings and `dcnr infer`",
  ],
  ...["What passes between machines of a replica is not signed", "Questions of the network's own begin like everyday"],
  ...["If you find a hole"],
];

describe("every Markdown page", () => {
  const pages = globSync("**/*.md", { cwd: root, exclude: (path) => /node_modules|test-artefacts|dist/.test(path) });

  test("is found", () => assert.ok(pages.length >= 20));

  test("numbers each decision once, in its name and in its title", () => {
    const decisions = pages.filter((page) => /^docs\/decisions\/\d/.test(page));
    const numbers = decisions.map((page) => Number(basename(page).slice(0, 4)));
    assert.deepEqual(numbers, [...new Set(numbers)]);
    for (const [index, page] of decisions.entries())
      assert.ok(readFileSync(join(root, page), "utf8").startsWith(`# ${numbers[index]}. `), page);
  });

  test("names tests that are there where it makes claims about safety", () => {
    const text = readFileSync(join(root, "docs/threat-model.md"), "utf8");
    const named = Array.from(text.matchAll(/`((?:src|test|simulation)\/[\w./-]+)`/g), (match) => match[1] as string);
    assert.ok(named.length > 40);
    assert.deepEqual(
      named.filter((path) => !existsSync(join(root, path))),
      [],
    );
    const claims = text.split(/\n(?=\n|- | {2}- )/).map((claim) => claim.trim());
    const unproven = claims.filter(
      (claim) =>
        !/^(#|$)/.test(claim) &&
        !/`(src|test|simulation)\/[\w./-]+\.test\.ts`|`test\/[a-z]+`/.test(claim) &&
        !warnings.some((warning) => claim.replace(/^- /, "").replaceAll("**", "").startsWith(warning)),
    );
    assert.deepEqual(
      unproven,
      [],
      "name the test that shows it, or say what is not protected and list it as a warning",
    );
  });

  test("has a test for every attack that it lists, under the letter that it lists it by", () => {
    const text = readFileSync(join(root, "docs/threat-model.md"), "utf8");
    const rows = [...text.matchAll(/^\| ([A-Z]) \|.*$/gm)];
    assert.equal(rows.map(([, letter]) => letter).join(""), "ABCDEFGHIJKLMNOP");
    for (const [row, letter] of rows) {
      const files = Array.from(row.matchAll(/`(test\/attacks\/[\w-]+\.test\.ts)`/g), (match) => match[1] as string);
      const tested = files.filter((file) =>
        readFileSync(join(root, file), "utf8").includes(`describe("${letter as string}: `),
      );
      assert.ok(tested.length > 0, row);
    }
  });

  for (const page of pages)
    test(`${page} names commands and flags that exist`, async () => {
      const lines = codeBlocks(join(root, page)).flatMap(({ code }) => code.replaceAll("\\\n", " ").split("\n"));
      const commands = lines.flatMap((line) => /(?:^|[=|] ?|\$ )(?:npx )?dcnr ([a-z].*)/.exec(line)?.[1] ?? []);
      for (const command of commands) {
        const words =
          command
            .split(/[#>|)]/)[0]
            ?.trim()
            .split(/\s+/) ?? [];
        // A form such as `dcnr COMMAND [flags]` shows a command, and is none.
        if (!command.includes("[")) assert.deepEqual(await unknownFlags(words), [], `in: dcnr ${command}`);
      }
    });

  for (const page of pages)
    test(`${page} links to what exists`, () => {
      for (const link of linksOf(join(root, page))) {
        const [path = "", anchor] = link.split("#");
        const target = path === "" ? join(root, page) : join(root, dirname(page), path);
        assert.ok(existsSync(target), `${page} links to ${link}, which is not there`);
        if (anchor && target.endsWith(".md"))
          assert.ok(headingAnchors(target).has(anchor), `${page} links to ${link}: there is no such heading`);
      }
    });
});
