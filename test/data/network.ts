// A real network for tests of the command line: an orchestrator and PNodes as processes, and `dcnr` as people
// type it, each call a process of its own.

import assert from "node:assert/strict";
import { type ChildProcess, spawn } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { LocalNetwork } from "../../src/cli/local-network.ts";

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

const main = join(import.meta.dirname, "..", "..", "src", "cli", "main.ts");
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
    return new TestNetwork(folder, local);
  }

  async stop(): Promise<void> {
    await this.#local.stop();
    rmSync(this.folder, { recursive: true, force: true });
  }

  path(name: string): string {
    return join(this.folder, name);
  }

  spawn(words: readonly string[], input = ""): Running {
    const child = spawn(process.execPath, ["--import", tellMemory, main, ...words], {
      env: {
        ...process.env,
        DCNR_ORCHESTRATOR: this.#local.orchestrator.address,
        XDG_DATA_HOME: join(this.folder, "home"),
        XDG_CONFIG_HOME: join(this.folder, "home"),
        NO_COLOR: "1",
      },
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
    const { code, out, error } = await this.run(words);
    assert.equal(code, 0, `dcnr ${words.join(" ")}: ${error}`);
    return out;
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
