// A Slurm that is not there, whose jobs are PNodes that act: what `test/control/providers.test.ts` fetches machines from.

import { fail } from "../../src/core/errors.ts";
import { parseInviteLink } from "../../src/protocol/identity/invite-link.ts";
import { FakeSlurm, nothing } from "../../src/providers/fakes.testing.ts";
import type { ProviderTools } from "../../src/providers/provider.ts";
import type { ActingPNode } from "./acting-pnode.ts";
import type { Stage } from "./stage.ts";

export interface ProvidedOptions {
  readonly bootMs?: number;
  /** What comes instead of what was asked for: fewer cores, or nothing at all. */
  readonly lie?: (partOfName: string) => { readonly cores?: number } | "never" | undefined;
  readonly stepMs?: number;
}

export class ProvidedMachines {
  readonly slurm = new FakeSlurm();
  readonly pnodes = new Map<string, ActingPNode>();
  /** Jobs that were ended while VNodes were on them. */
  readonly endedWithWork: string[] = [];
  /** sbatch does its work and then fails. */
  failsAfter = false;
  readonly #stage: Stage;
  readonly #options: ProvidedOptions;
  submissions = 0;

  constructor(stage: Stage, options: ProvidedOptions = {}) {
    this.#stage = stage;
    this.#options = options;
  }

  get tools(): ProviderTools {
    return { ...nothing, command: (program, args, options) => this.#command(program, args, options) };
  }

  running(): string[] {
    return Array.from(this.slurm.jobs).flatMap(([id, { state }]) => (state === "RUNNING" ? [id] : []));
  }

  /** As the cluster does when it wants its node back. */
  take(id: string): void {
    (this.slurm.jobs.get(id) as { state: string }).state = "PREEMPTED";
    this.pnodes.get(id)?.kill();
  }

  async #command(program: string, args: readonly string[], options: { input?: string } = {}) {
    const before = new Set(this.slurm.jobs.keys());
    if (program === "scancel") for (const id of args) this.#end(id);
    const result = await this.slurm.command(program, args, options);
    if (program !== "sbatch") return result;
    this.submissions++;
    for (const [id, { script, options: words }] of this.slurm.jobs)
      if (!before.has(id)) this.#boot(id, script, words.join(" "));
    if (this.failsAfter) return fail("unavailable", "sbatch did not end within 60 s");
    return result;
  }

  #end(id: string): void {
    const pnode = this.pnodes.get(id);
    if (!pnode) return;
    if (pnode.hosted.size > 0) this.endedWithWork.push(id);
    void pnode.leave().catch(() => {});
    this.#stage.world.time.after(500, () => pnode.kill());
  }

  #boot(id: string, script: string, words: string): void {
    const { bootMs = 3_000, lie, stepMs = 50 } = this.#options;
    const index = id.split("_")[1];
    const [, link = "", name = ""] =
      new RegExp(`^${index}\\) export DCNR_LINK='([^']+)';.*'--name' '([^']+)'`, "m").exec(script) ?? [];
    const cores = Number(/--cpus-per-task=(\d+)/.exec(words)?.[1]);
    const lied = lie?.(words);
    if (lied === "never") return;
    const { token } = parseInviteLink(link);
    this.#stage.world.time.after(bootMs, () => {
      if (this.slurm.jobs.get(id)?.state !== "RUNNING") return;
      const capabilities = { cores: lied?.cores ?? cores, memoryBytes: 8n << 30n };
      const limits = { memoryBytes: 1n << 30n };
      this.pnodes.set(id, this.#stage.pnode(name, { stepMs, register: { invite: token, capabilities, limits } }));
    });
  }
}
