// The session that chaos disturbs: T1 with fewer, smaller blocks, on tokens made up for the purpose. Rounds differ
// in the network's id only, which is not part of a session's identity, so all of them have one root.

import { t1, transformerYaml } from "../../examples/generate.ts";
import { Client } from "../../src/client/client.ts";
import { messageOf } from "../../src/core/errors.ts";
import { buildTokens } from "../../src/data/build.ts";
import { manifestText } from "../../src/data/manifest.ts";
import type { Session } from "../../src/protocol/gen/dcnr/v1/session_pb.ts";
import { openMemoryBlobs } from "../../src/store/memory.ts";
import { pause } from "./fleet.ts";
import type { Progress } from "./measure.ts";

const small = { ...t1, name: "t1-small", blocks: 6, heads: 2, headDim: 16, context: 32, vocabulary: 256 };
const datasetName = "made-up";

export interface Round {
  readonly session: string;
  readonly root: string;
  readonly log: readonly Progress[];
}

/** How many copies of the network learn together, or apart for a while. */
export interface Lanes {
  readonly lanes: number;
  readonly syncEvery?: number;
  readonly syncAfter?: bigint;
  /** Lanes come and go; what comes out then depends on who was late, and on nothing else. */
  readonly elastic?: "on";
}

export interface RoundOptions {
  /** On how many PNodes at least; 0 leaves it to placement. */
  readonly spread?: number;
  readonly onLook?: (session: Session) => void;
  readonly autonomy?: "on";
  readonly lanes?: Lanes;
  /** Waited for before it is looked again. */
  readonly between?: () => Promise<void> | undefined;
}

/** An orchestrator that is there answers by then; if not, another one is asked. */
const answerMs = 5_000;
/** A session is made once: on a busy machine that takes longer than an answer. */
const creationMs = 60_000;

export class Training {
  readonly #clients: readonly Client[];

  constructor(addresses: readonly string[]) {
    this.#clients = addresses.map((address) => new Client(address, { fetch: globalThis.fetch }));
  }

  async prepare(): Promise<void> {
    const blobs = openMemoryBlobs().datasets;
    const builder = buildTokens(small.vocabulary, { blobs });
    let state = 1;
    const next = () => {
      state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
      return (state >>> 16) % small.vocabulary;
    };
    await builder.add(Array.from({ length: 40_000 }, next));
    const manifest = await builder.finish();
    for await (const { hash } of blobs.list()) {
      const content = new Uint8Array(await blobs.get(hash));
      await this.#any((client) => client.datasets.upload(content));
    }
    await this.#any((client) => client.datasets.create(datasetName, manifestText(manifest)));
  }

  /** Trains once from fresh weights; resolves when the session is done. */
  async round(
    name: string,
    steps: number,
    signal?: AbortSignal,
    { spread = 0, onLook = () => {}, autonomy, lanes, between }: RoundOptions = {},
  ): Promise<Round> {
    await this.#any((client) => client.networks.create(transformerYaml(small), { id: name }).catch(unlessThere));
    const settings = {
      network: name,
      dataset: datasetName,
      split: "all",
      steps: BigInt(steps),
      batch: 8,
      microbatches: 4,
      seed: 11n,
      numerics: "native",
      checkpointEvery: 5,
      replicas: 1,
      spread,
      autonomy: autonomy ?? "",
      ...lanes,
      learningRate: { schedule: "constant", base: 0.001, warmupSteps: 0n, finalShare: 1 },
    };
    // Asked once more, an orchestrator would make one more session: the others would train beside it on the same cores.
    const id = await this.#any(async (client) => {
      const known = (await client.sessions.list()).find(({ settings }) => settings?.network === name);
      return (known ?? (await client.sessions.create(settings))).id;
    }, creationMs);
    const log: Progress[] = [];
    for (;;) {
      const session = await this.#any((client) => client.sessions.get(id));
      if (Number(session.step) > (log.at(-1)?.step ?? -1))
        log.push({ atMs: performance.now(), step: Number(session.step) });
      onLook(session);
      if (session.status === "done") return { session: id, root: await this.#root(session), log };
      if (session.status === "failed") throw new Error(`session ${id} failed: ${session.reason}`);
      if (signal?.aborted) throw new Error(`session ${id} was given up at step ${session.step} (${session.reason})`);
      await between?.();
      await pause(100);
    }
  }

  async #root(session: Session): Promise<string> {
    const roots = await this.#any((client) => client.sessions.stepRoots(session.id));
    const last = roots.at(-1);
    if (last === undefined || last.step !== session.totalSteps)
      throw new Error(`session ${session.id} is done, but its last root is of step ${last?.step}`);
    return last.root;
  }

  /** Whichever orchestrator answers; they come and go. */
  async #any<T>(act: (client: Client) => Promise<T>, patienceMs = answerMs): Promise<T> {
    let failure: unknown;
    for (let attempt = 0; attempt < 300; attempt++) {
      const client = this.#clients[attempt % this.#clients.length] as Client;
      try {
        return await withTimeout(act(client), patienceMs);
      } catch (error) {
        failure = error;
        await pause(100);
      }
    }
    throw new Error(`no orchestrator did it: ${messageOf(failure)}`);
  }
}

function unlessThere(error: unknown): void {
  if (!/exists/.test(messageOf(error))) throw error;
}

function withTimeout<T>(promise: Promise<T>, timeoutMs: number): Promise<T> {
  return new Promise((resolve, reject) => {
    const timer = setTimeout(() => reject(new Error(`no answer within ${timeoutMs} ms`)), timeoutMs);
    promise.then(resolve, reject).finally(() => clearTimeout(timer));
  });
}
