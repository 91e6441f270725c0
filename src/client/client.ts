// A small typed client of an orchestrator: what the CLI, the examples and app developers use. `calls/` has the calls, by what
// they are about; this file connects.

import { fail } from "../core/errors.ts";
import type { TlsIdentity } from "../core/keys.ts";
import { SystemService } from "../protocol/gen/dcnr/v1/system_pb.ts";
import { openGrpcNetwork } from "../protocol/grpc.ts";
import type { KeyBook } from "../protocol/identity/key-book.ts";
import { pinnedFetch } from "../protocol/identity/pinned-http.ts";
import { Tls } from "../protocol/identity/tls.ts";
import type { Network } from "../protocol/network.ts";
import { isLoopback, parseAddress } from "../protocol/routes/address.ts";
import type { StateReader } from "../states/reader.ts";
import { backgroundTimers } from "../system/timers.ts";
import { Blobs, type StateBlob } from "./calls/blobs.ts";
import { creditCalls, trustCalls } from "./calls/credits.ts";
import { datasetCalls, vocabularyCalls } from "./calls/data.ts";
import { jobCalls, queueCalls, studyCalls } from "./calls/jobs.ts";
import { Line } from "./calls/line.ts";
import { fleetCalls, memberCalls, providerCalls, reportCalls } from "./calls/machines.ts";
import {
  embed,
  type GeneratedPiece,
  type GenerateOptions,
  type GeneratePrompt,
  generate,
  modelCalls,
} from "./calls/models.ts";
import { networkCalls } from "./calls/networks.ts";
import { keyCalls, rightCalls } from "./calls/rights.ts";
import { sessionCalls } from "./calls/sessions.ts";

export interface ConnectOptions {
  readonly apiKey?: string;
  /** A person's own key, shown over connections to addresses that name the network's. */
  readonly identity?: TlsIdentity;
  /** What is known of keys that have succeeded others. */
  readonly keys?: KeyBook;
  /** How bytes are sent to blob addresses; the global fetch unless told otherwise. */
  readonly fetch: typeof globalThis.fetch;
}

export class Client {
  readonly address: string;
  readonly network: Network;
  readonly #line: Line;
  readonly #blobs: Blobs;
  readonly networks: ReturnType<typeof networkCalls>;
  readonly sessions: ReturnType<typeof sessionCalls>;
  readonly jobs: ReturnType<typeof jobCalls>;
  /** A study is submitted as a job of the kind "tune", and stopped and resumed by cancelling and retrying that. */
  readonly studies: ReturnType<typeof studyCalls>;
  readonly queues: ReturnType<typeof queueCalls>;
  readonly providers: ReturnType<typeof providerCalls>;
  readonly reports: ReturnType<typeof reportCalls>;
  readonly datasets: ReturnType<typeof datasetCalls>;
  readonly vocabularies: ReturnType<typeof vocabularyCalls>;
  readonly models: ReturnType<typeof modelCalls>;
  readonly keys: ReturnType<typeof keyCalls>;
  readonly rights: ReturnType<typeof rightCalls>;
  readonly members: ReturnType<typeof memberCalls>;
  readonly credits: ReturnType<typeof creditCalls>;
  /** What was checked, by whom, and what follows for machines and sessions. */
  readonly trust: ReturnType<typeof trustCalls>;
  readonly fleet: ReturnType<typeof fleetCalls>;

  constructor(address: string, options: ConnectOptions) {
    checkEncrypted(address);
    const tls = new Tls(options.identity, undefined, options.keys);
    this.address = address;
    this.network = openGrpcNetwork({
      timers: backgroundTimers,
      ...(options.identity && { identity: options.identity }),
      keys: tls.keys,
      ...(options.apiKey && { headers: { authorization: `Bearer ${options.apiKey}` } }),
    });
    const line = new Line(address, this.network);
    this.#line = line;
    this.#blobs = new Blobs(line, (path, request) => pinnedFetch(tls, line.address, path, request), options.fetch);
    this.networks = networkCalls(line);
    this.sessions = sessionCalls(line);
    this.jobs = jobCalls(line);
    this.studies = studyCalls(line);
    this.queues = queueCalls(line);
    this.providers = providerCalls(line);
    this.reports = reportCalls(line);
    this.datasets = datasetCalls(line, this.#blobs);
    this.vocabularies = vocabularyCalls(line, this.#blobs);
    this.models = modelCalls(line);
    this.keys = keyCalls(line);
    this.rights = rightCalls(line);
    this.members = memberCalls(line);
    this.credits = creditCalls(line);
    this.trust = trustCalls(line);
    this.fleet = fleetCalls(line);
  }

  readonly system = {
    version: () => this.#line.call(SystemService.method.getVersion, {}),
    health: () => this.#line.call(SystemService.method.getHealth, {}),
  };

  /** A state or vocabulary that was granted; refused if it is not what its hash says. */
  download(blob: StateBlob): Promise<Uint8Array> {
    return this.#blobs.download(blob);
  }

  /** A stored state, by its granted manifest: its tensors are fetched when they are asked for. */
  openState(blob: StateBlob, what: string): Promise<StateReader> {
    return this.#blobs.openState(blob, what);
  }

  /** An answer as it is generated: pieces of text, the last one with a reason why it ended. */
  generate(model: string, prompt: GeneratePrompt, options: GenerateOptions = {}): AsyncIterable<GeneratedPiece> {
    return generate(this.#line, model, prompt, options);
  }

  /** One vector of length 1 for a text or token ids. */
  embed(model: string, text: string | readonly number[], options: { signal?: AbortSignal | undefined } = {}) {
    return embed(this.#line, model, text, options.signal);
  }

  close(): Promise<void> {
    return this.network.close();
  }
}

/** Orchestrators answer nothing in plain text beyond their own machine, so nobody should send them a key that way. */
function checkEncrypted(address: string): void {
  const { host, key, secure } = parseAddress(address);
  if (isLoopback(host) || key !== undefined || secure || address.startsWith("http://")) return;
  fail(
    "invalid_argument",
    `${address} is on another machine, and plain text is not sent there: write ${address}#KEY with the network's key, which the ` +
      "orchestrator prints, https:// for one with a certificate, or http:// if you mean it",
  );
}
