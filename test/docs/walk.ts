// Walks documents as their readers would: a network of its own, commands one after the other, what they are told to remember,
// and programs that stay while they go on.

import assert from "node:assert/strict";
import { type ChildProcess, spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { type CodeBlock, codeBlocks } from "../markdown.ts";

export const root = join(import.meta.dirname, "../..");
/** A command of a page that takes longer hangs. */
const commandTimeoutMs = 300_000;

interface Ran {
  readonly code: number | null;
  readonly output: string;
}

function start(
  command: string,
  environment: NodeJS.ProcessEnv,
  folder = root,
): { child: ChildProcess; output: () => string } {
  // `exec`: the program gets our signals, not the shell.
  const text = `exec ${command.replace(/^(npx )?dcnr/, `${process.execPath} ${join(root, "bin/dcnr.js")}`)}`;
  const child = spawn("/bin/sh", ["-c", text], { cwd: folder, env: environment, stdio: ["ignore", "pipe", "pipe"] });
  let output = "";
  for (const stream of [child.stdout, child.stderr])
    stream.setEncoding("utf8").on("data", (piece: string) => {
      output += piece;
    });
  return { child, output: () => output };
}

export async function run(command: string, environment: NodeJS.ProcessEnv, folder = root): Promise<Ran> {
  const { child, output } = start(command, environment, folder);
  const timer = setTimeout(() => child.kill("SIGKILL"), commandTimeoutMs);
  const [code] = (await once(child, "close")) as [number | null];
  clearTimeout(timer);
  return { code, output: output() };
}

/** A program that goes on after it has said what is expected. */
async function bringToStay(command: string, said: RegExp, environment: NodeJS.ProcessEnv, folder: string) {
  const { child, output } = start(command, environment, folder);
  const ended = once(child, "exit");
  const timer = setTimeout(() => child.kill("SIGKILL"), commandTimeoutMs);
  await new Promise<void>((resolve, reject) => {
    const look = () => said.test(output()) && resolve();
    for (const stream of [child.stdout, child.stderr]) stream?.on("data", look);
    void ended.then(() => reject(new Error(`${command} ended before it said ${said}: ${output()}`)));
  });
  clearTimeout(timer);
  const stop = async () => {
    child.kill("SIGTERM");
    await ended;
  };
  return { output: output(), stop };
}

/** `dcnr up` with its own directory and a free port; the address and process ids it printed. */
export async function bringUp(command: string, directory: string) {
  const environment: NodeJS.ProcessEnv = { ...process.env, XDG_DATA_HOME: directory, NO_COLOR: "1" };
  const listening = { ...environment, DCNR_LISTEN: "127.0.0.1:0" };
  const { output, stop } = await bringToStay(command, /Ctrl-C ends it/, listening, root);
  const address = /http:\/\/(\S+)/.exec(output)?.[1] ?? "";
  const pids = [...output.matchAll(/PNode\s+(\w+)\s+\(pid (\d+)\)/g)].map(([, name = "", pid = ""]) => ({ name, pid }));
  return { address, pids, environment: { ...environment, DCNR_ORCHESTRATOR: address }, stop };
}

/** One reader: where they are, what they remember, and what they have left running. */
export class Reader {
  readonly folder: string;
  readonly remembered = new Map<string, string>();
  readonly #environment: NodeJS.ProcessEnv;
  /** What stands in pages for what a test has: addresses of machines that are not there. */
  readonly #standIns: readonly (readonly [RegExp, string])[];
  #staying: (() => Promise<void>)[] = [];
  #at: NodeJS.ProcessEnv = {};

  constructor(folder: string, environment: NodeJS.ProcessEnv, standIns: readonly (readonly [RegExp, string])[] = []) {
    this.folder = folder;
    this.#environment = environment;
    this.#standIns = standIns;
  }

  /** What one block says comes true. */
  async follow(block: CodeBlock): Promise<void> {
    const commands = block.code.replaceAll("\\\n", " ").split("\n");
    const said = block.expect === undefined ? undefined : new RegExp(this.#filled(block.expect));
    let output = "";
    for (const command of commands.map((line) => this.#filled(line))) {
      const environment = { ...this.#environment, ...this.#at };
      if (block.info === "sh stays") {
        const staying = await bringToStay(command, said ?? /./, environment, this.folder);
        this.#staying.unshift(staying.stop);
        output += staying.output;
        // A page that brings up an orchestrator of its own goes on with that one.
        const own = /orchestrator .*http:\/\/([\d.]+:\d+)/.exec(staying.output)?.[1];
        if (own) this.#at = { DCNR_ORCHESTRATOR: own };
        continue;
      }
      const ran = await run(command, environment, this.folder);
      assert.equal(ran.code, 0, `${command}\n${ran.output}`);
      output += ran.output;
    }
    if (said === undefined) return;
    const found = said.exec(output);
    assert.ok(found, `expected ${said} in:\n${output}`);
    for (const [what, value] of Object.entries(found.groups ?? {})) this.remembered.set(what, value);
  }

  /** A page's end: what it left running ends, what was remembered is forgotten, and the network is the shared one again. */
  async leave(): Promise<void> {
    for (const stop of this.#staying) await stop();
    this.#staying = [];
    this.#at = {};
    this.remembered.clear();
  }

  #filled(text: string): string {
    const known = this.#standIns.reduce((filled, [pattern, value]) => filled.replaceAll(pattern, value), text);
    return [...this.remembered].reduce(
      (filled, [name, value]) => filled.replaceAll(new RegExp(`\\b${name}\\b`, "g"), value),
      known,
    );
  }
}

const noCurl = spawnSync("curl", ["--version"]).status !== 0;

/** Tests that follow a page: blocks `sh` and `sh stays` run in their order, a block `yaml NAME` is the file that the reader writes. */
export function walkPage(page: string, reader: () => Reader): void {
  for (const [index, block] of codeBlocks(join(root, page)).entries()) {
    const [kind, name] = block.info.split(" ");
    if (kind === "yaml" && name)
      test(`${page}, ${name} as the page has it`, () => writeFileSync(join(reader().folder, name), block.code));
    if (kind !== "sh") continue;
    const skip = block.code.startsWith("curl ") && noCurl && "there is no curl here";
    test(`${page}, block ${index + 1}: ${block.code.split("\n")[0]}`, { skip }, () => reader().follow(block));
  }
  test(`${page} ends`, () => reader().leave());
}
