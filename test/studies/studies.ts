// Real processes under a study: the demo MLP is tuned undisturbed, then again while machines and orchestrators are killed. Both
// must come to one table and one winner.

import { readFileSync } from "node:fs";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { ensureDataset } from "../../src/cli/content/builtin.ts";
import { openOutput } from "../../src/cli/shown/output.ts";

import { Client } from "../../src/client/client.ts";
import { messageOf } from "../../src/core/errors.ts";
import type { Study } from "../../src/protocol/gen/dcnr/v1/study_pb.ts";
import { Fleet, pause } from "../chaos/fleet.ts";

export interface StudiesOptions {
  readonly pnodes: number;
  readonly orchestrators: number;
  readonly trials: number;
  readonly steps: number;
  readonly every: number;
  /** Between two kills, about. */
  readonly killEveryMs: number;
  readonly seed: number;
  readonly print: (line: string) => void;
}

export interface StudiesReport {
  readonly calm: Table;
  readonly stormy: Table;
  readonly kills: number;
}

/** What must not depend on who died. */
export interface Table {
  readonly best: number | undefined;
  readonly trials: readonly unknown[];
}

/** A study that takes longer hangs. */
const studyTimeoutMs = 30 * 60_000;
const memory = "400MB";

export async function studies(options: StudiesOptions): Promise<StudiesReport> {
  const directory = await mkdtemp(join(tmpdir(), "dcnr-studies-"));
  const fleet = await Fleet.start({ directory, memory, ...options });
  try {
    const lab = new Lab(fleet, options);
    await lab.prepare();
    const calm = await lab.study("calm", () => true);
    options.print(`undisturbed: trial ${calm.best} of ${calm.trials.length}`);
    const storm = new Storm(fleet, options);
    const raging = storm.rage();
    const stormy = await lab.study("stormy", (study) => {
      if (study.trials.some(({ values }) => values.length > 0)) storm.begin();
      return storm.failure === undefined;
    });
    await storm.end(raging);
    options.print(`${storm.kills} kills: trial ${stormy.best} of ${stormy.trials.length}`);
    return { calm, stormy, kills: storm.kills };
  } finally {
    await fleet.stop();
    await rm(directory, { recursive: true, force: true });
  }
}

class Lab {
  readonly #options: StudiesOptions;
  readonly #clients: readonly Client[];

  constructor(fleet: Fleet, options: StudiesOptions) {
    this.#options = options;
    this.#clients = fleet.addresses.map((address) => new Client(address, { fetch: globalThis.fetch }));
  }

  async prepare(): Promise<void> {
    const definition = readFileSync(join(import.meta.dirname, "../../examples/mlp.yaml"), "utf8");
    await this.#any((client) => client.networks.create(definition, { id: "mlp" }).catch(unlessThere));
    await this.#any((client) => ensureDataset(client, "mnist", openOutput({}, true)));
  }

  async study(name: string, goesOn: (study: Study) => boolean): Promise<Table> {
    const { trials, steps, every } = this.#options;
    const spec = {
      ...{ schedule: "hyperband", trials, steps, every, parallel: 4 },
      space: { rate: { "log-uniform": [1e-4, 1e-1] }, batch: { choice: [16, 32] } },
      train: { network: "mlp", dataset: "mnist" },
    };
    const [job] = await this.#any((client) => client.jobs.submit([{ kind: "tune", name, key: name, spec }]));
    const id = job?.id ?? "";
    const untilMs = performance.now() + studyTimeoutMs;
    for (;;) {
      const study = await this.#any((client) => client.studies.get(id));
      if (study.status === "done") return tableOf(study);
      if (study.status === "failed") throw new Error(`study ${id} failed: ${study.reason}`);
      if (!goesOn(study)) throw new Error("the storm broke down");
      if (performance.now() > untilMs)
        throw new Error(`study ${id} was given up after ${study.trialsEnded} of ${trials} trials`);
      await pause(100);
    }
  }

  /** Whichever orchestrator answers; they come and go. */
  async #any<T>(act: (client: Client) => Promise<T>): Promise<T> {
    let failure: unknown;
    for (let attempt = 0; attempt < 300; attempt++) {
      try {
        return await act(this.#clients[attempt % this.#clients.length] as Client);
      } catch (error) {
        failure = error;
        await pause(200);
      }
    }
    throw new Error(`no orchestrator did it: ${messageOf(failure)}`);
  }
}

/** The answer to an earlier attempt may have been lost. */
function unlessThere(error: unknown): void {
  if (!/exists/.test(messageOf(error))) throw error;
}

function tableOf({ best, trials }: Study): Table {
  const rows = trials.map(({ number, settings, status, reason, values }) => ({
    ...{ number, settings, status, reason },
    values: values.map(({ step, value }) => [Number(step), value]),
  }));
  return { best, trials: rows };
}

/** Kills one member after the other, each once the one before is back: a machine that is short of time makes headway, too. */
class Storm {
  readonly #fleet: Fleet;
  readonly #options: StudiesOptions;
  readonly #begun = Promise.withResolvers<void>();
  #over = false;
  kills = 0;
  failure: unknown;

  constructor(fleet: Fleet, options: StudiesOptions) {
    this.#fleet = fleet;
    this.#options = options;
  }

  /** A trial has learned something: a fast machine would be done before the first pause is over. */
  begin(): void {
    this.#begun.resolve();
  }

  async rage(): Promise<void> {
    await this.#begun.promise;
    let state = this.#options.seed;
    const next = (count: number) => {
      state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
      return (state >>> 16) % count;
    };
    while (!this.#over) {
      const able = this.#fleet.members.filter(({ role }) => role === "pnode" || this.#options.orchestrators > 1);
      const victim = able[next(able.length)];
      if (this.#over || !victim) continue;
      this.kills++;
      try {
        await this.#fleet.killAndRestart(victim, 1_000);
      } catch (error) {
        this.failure = error;
        return;
      }
      await pause(this.#options.killEveryMs / 2 + next(this.#options.killEveryMs));
    }
  }

  async end(raging: Promise<void>): Promise<void> {
    this.#over = true;
    this.#begun.resolve();
    await raging;
  }
}
