// A real network for tests of the command line: an orchestrator and PNodes as processes, and `dcnr` as people type it:
// in a process of its own where its end, its complaints or its memory matter, else within the test, which is quicker.

import assert from "node:assert/strict";
import { type ChildProcess, spawn } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { cacheFolder } from "../../bin/newer-node.js";
import { parseCommandLine } from "../../src/cli/command.ts";
import { commands, findCommand } from "../../src/cli/commands.ts";
import { openSettings } from "../../src/cli/flags/settings.ts";
import { LocalNetwork } from "../../src/cli/machine/local-network.ts";
import { jsonValue, layOut, type Output, openOutput } from "../../src/cli/shown/output.ts";
import { Client } from "../../src/client/client.ts";

export interface Ran {
  readonly code: number | null;
  readonly out: string;
  readonly error: string;
  /** The most memory the process ever had. */
  readonly residentBytesMax: number;
}

export interface Running {
  readonly child: ChildProcess;
  readonly ended: Promise<Ran>;
}

const program = join(import.meta.dirname, "..", "..", "bin", "dcnr.js");
/** The process tells its own peak at its end: nobody else sees it reliably. */
const tellMemory =
  'data:text/javascript,process.on("exit",()=>process.stderr.write("\\nresident "+process.resourceUsage().maxRSS+"\\n"))';

export class TestNetwork {
  readonly folder: string;
  readonly #local: LocalNetwork;

  private constructor(folder: string, local: LocalNetwork) {
    this.folder = folder;
    this.#local = local;
  }

  static async start(pnodes: number): Promise<TestNetwork> {
    const folder = mkdtempSync(join(tmpdir(), "dcnr-cli-data-"));
    const local = await LocalNetwork.start({
      directory: join(folder, "network"),
      listen: "127.0.0.1:0",
      pnodes,
      cpusPerPNode: 1,
      logLevel: "error",
    });
    const network = new TestNetwork(folder, local);
    Object.assign(process.env, network.#environment);
    return network;
  }

  get #environment(): Record<string, string> {
    return {
      DCNR_ORCHESTRATOR: this.#local.orchestrator.address,
      XDG_DATA_HOME: join(this.folder, "home"),
      XDG_CONFIG_HOME: join(this.folder, "home"),
      NO_COLOR: "1",
      // As people's starts: compiled once.
      NODE_COMPILE_CACHE: process.env["NODE_COMPILE_CACHE"] ?? join(cacheFolder(), "compiled"),
    };
  }

  async stop(): Promise<void> {
    await this.#local.stop();
    rmSync(this.folder, { recursive: true, force: true });
  }

  path(name: string): string {
    return join(this.folder, name);
  }

  client(): Client {
    return new Client(this.#local.orchestrator.address, { fetch });
  }

  spawn(words: readonly string[], input = ""): Running {
    const child = spawn(process.execPath, ["--import", tellMemory, program, ...words], {
      env: { ...process.env, ...this.#environment },
    });
    let out = "";
    let error = "";
    child.stdout.setEncoding("utf8").on("data", (piece: string) => (out += piece));
    child.stderr.setEncoding("utf8").on("data", (piece: string) => (error += piece));
    child.stdin.on("error", () => {});
    child.stdin.end(input);
    const ended = new Promise<Ran>((resolve) =>
      child.on("close", (code) => {
        const told = /\nresident (\d+)\n$/.exec(error);
        resolve({
          code,
          out,
          error: error.replace(/\nresident \d+\n$/, ""),
          residentBytesMax: Number(told?.[1]) * 1024,
        });
      }),
    );
    return { child, ended };
  }

  run(words: readonly string[], input?: string): Promise<Ran> {
    return this.spawn(words, input).ended;
  }

  /** What it printed; fails with what it complained of. */
  async dcnr(...words: string[]): Promise<string> {
    const found = findCommand(words);
    assert.ok(found, `there is a command dcnr ${words.join(" ")}`);
    const { command } = await found.entry.load();
    const settings = await openSettings(this.#environment);
    const parsed = parseCommandLine(found.rest, command, `dcnr ${found.entry.words}`, settings);
    const printed: string[] = [];
    const signal = new AbortController().signal;
    const code = await command.run({ ...parsed, commands, out: outputInto(printed), settings, signal });
    assert.equal(code ?? 0, 0, `dcnr ${words.join(" ")}: ${printed.join("")}`);
    return printed.join("");
  }

  async json<T>(...words: string[]): Promise<T> {
    return JSON.parse(await this.dcnr(...words, "--json")) as T;
  }

  /** Its complaint; fails if it succeeds, or complains in more than a sentence. */
  async refusal(words: readonly string[], input?: string): Promise<string> {
    const { code, error } = await this.run(words, input);
    assert.notEqual(code, 0, `dcnr ${words.join(" ")} should be refused`);
    const complaint = error.split("\n").filter((line) => line.startsWith("dcnr: "));
    assert.equal(complaint.length, 1, error);
    assert.doesNotMatch(error, /\n\s+at |DCNR_DEBUG|a bug/, "expected failures have no stack and no excuse");
    return complaint[0] as string;
  }
}

/** Notes and progress are dropped: only what a command prints as its result counts. */
function outputInto(printed: string[]): Output {
  const out = openOutput({}, true);
  return {
    ...out,
    line: (text = "") => void printed.push(`${text}\n`),
    raw: (text) => void printed.push(text),
    json: (value) => void printed.push(JSON.stringify(value, jsonValue)),
    advice: (text) => void printed.push(`${text}\n`),
    note: () => {},
    status: () => {},
    table: (columns, rows) => {
      for (const { text } of layOut(columns, rows, 200, false)) printed.push(`${text}\n`);
    },
  };
}
