// What machines in homes train: a tiny network, or the demo's GPT, which also has to speak.

import { readFileSync } from "node:fs";
import { join } from "node:path";
import { buildBuiltin } from "../../src/cli/content/builtin.ts";
import type { Client } from "../../src/client/client.ts";
import { addSamples } from "../../src/client/samples.ts";
import { type Manifest, manifestText } from "../../src/data/manifest.ts";
import { smallNetwork, smallSamples } from "../small-training.ts";

export interface Subject {
  prepare(client: Client): Promise<void>;
  /** On so many machines at least; gives the session. */
  begin(client: Client, spread: number): Promise<string>;
  /** A step after which something may happen. */
  readonly middle: bigint;
  /** What the trained model says. */
  text?(client: Client, session: string): Promise<string>;
}

const demoSettings = { batch: 16, microbatches: 4, seed: 1n, numerics: "native", checkpointEvery: 5, clipNorm: 1 };

export const subjects = {
  small: {
    middle: 50n,
    prepare: async (client) => {
      await client.networks.create(smallNetwork, { id: "small" });
      await addSamples(client, "pairs", smallSamples());
    },
    begin: async (client, spread) => {
      const settings = { network: "small", dataset: "pairs", split: "all", batch: 8, microbatches: 2, seed: 7n };
      return (await client.sessions.create({ ...settings, steps: 400n, checkpointEvery: 20, spread })).id;
    },
  },
  gpt: {
    middle: 3n,
    prepare: async (client) => {
      const file = join(import.meta.dirname, "..", "..", "examples", "gpt-demo.yaml");
      await client.networks.create(readFileSync(file, "utf8"), { id: "gpt" });
      const manifest = (await buildBuiltin(client, "moby-dick")) as Manifest;
      await client.datasets.create("moby-dick", manifestText(manifest));
    },
    begin: async (client, spread) => {
      const learningRate = { schedule: "constant", base: 0.004 };
      const settings = { network: "gpt", dataset: "moby-dick", steps: 12n, learningRate, spread };
      return (await client.sessions.create({ ...demoSettings, ...settings })).id;
    },
    text: async (client, session) => {
      const model = await client.models.serve(session, { replicas: 1, spread: 2, name: "speaks" });
      let text = "";
      for await (const piece of client.generate(model.name, "Call me", { maxTokens: 12, temperature: 0 }))
        text += piece.text;
      await client.models.stop(model.name, { forget: true });
      return text;
    },
  },
} as const satisfies Record<string, Subject>;

export type SubjectName = keyof typeof subjects;
