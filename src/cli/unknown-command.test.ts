import assert from "node:assert/strict";
import { test } from "node:test";
import { commands } from "./commands.ts";
import { unknownCommand } from "./unknown-command.ts";

const meant = (line: string) => /did you mean "([^"]+)"/.exec(unknownCommand(line.split(" "), commands))?.[1];

test("a mistyped command gets the nearest, a plural or another tool's word the one that is meant", () => {
  for (const [typed, command] of [
    ["hlep", "help"],
    ["trian mlp", "train"],
    ["network creat a.yaml", "network create"],
    ["netwrok create a.yaml", "network create"],
    ["jobs", "job list"],
    ["jobs submit a.yaml", "job submit"],
    ["sessions", "session list"],
    ["generate gpt hello", "infer"],
    ["ps", "status"],
  ] as const)
    assert.equal(meant(typed), command, typed);
});

test("whatever stands for another tool's word exists", async () => {
  const text = await import("node:fs").then(({ readFileSync }) =>
    readFileSync(new URL("./unknown-command.ts", import.meta.url), "utf8"),
  );
  const words = Array.from(text.matchAll(/\w+: "([a-z ]+)"/g), (match) => match[1] as string);
  assert.ok(words.length > 20);
  for (const word of words)
    assert.ok(
      commands.some((entry) => entry.words === word || entry.words.startsWith(`${word} `)),
      word,
    );
});

test("a word that is near to nothing is named alone; a group says what it has", () => {
  assert.match(unknownCommand(["frobnicate", "it"], commands), /^there is no command "frobnicate"\. See dcnr --help$/);
  assert.match(unknownCommand(["network", "frobnicate"], commands), /: network has create, /);
});
