// Real processes for the browser tests: an orchestrator that can be killed and comes back at the same address, PNodes by name.

import { execFile } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { type Child, startChild, stopChild } from "../../src/cli/machine/processes.ts";

const dcnr = join(import.meta.dirname, "../../bin/dcnr.js");

export class Lab {
  readonly directory = mkdtempSync(join(tmpdir(), "dcnr-browser-"));
  readonly pnodes = new Map<string, Child>();
  orchestrator: Child;
  #joined = 0;

  private constructor(orchestrator: Child) {
    this.orchestrator = orchestrator;
  }

  static async start(): Promise<Lab> {
    const lab = new Lab(undefined as unknown as Child);
    try {
      lab.orchestrator = await lab.#startOrchestrator("127.0.0.1:0");
    } catch (error) {
      rmSync(lab.directory, { recursive: true, force: true });
      throw error;
    }
    return lab;
  }

  get address(): string {
    return this.orchestrator.address;
  }

  get url(): string {
    return `http://${this.address}/`;
  }

  #startOrchestrator(listen: string): Promise<Child> {
    return startChild("the orchestrator", ["orchestrator", "--listen", listen, "--dir", this.directory]);
  }

  async killOrchestrator(): Promise<void> {
    this.orchestrator.kill("SIGKILL");
    await this.orchestrator.ended;
  }

  async restartOrchestrator(): Promise<void> {
    this.orchestrator = await this.#startOrchestrator(this.address);
  }

  async join(name: string): Promise<Child> {
    this.#joined += 1;
    const folder = join(this.directory, "pnodes", String(this.#joined));
    const child = await startChild(name, ["join", this.address, "--name", name, "--dir", folder, "--cpus", "1"]);
    this.pnodes.set(name, child);
    return child;
  }

  /** `dcnr ...` against this lab's orchestrator. */
  async run(...args: string[]): Promise<string> {
    const { stdout } = await promisify(execFile)(process.execPath, [dcnr, ...args, "--orchestrator", this.address]);
    return stdout;
  }

  async stop(): Promise<void> {
    await Promise.all(Array.from(this.pnodes.values(), (child) => stopChild(child, 2_000)));
    await stopChild(this.orchestrator, 2_000);
    rmSync(this.directory, { recursive: true, force: true });
  }
}
