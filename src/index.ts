// The public SDK: `import { connect } from "dcnr"`. Whatever is exported here is promised; everything else may change.

import { Client } from "./client/client.ts";

export interface ConnectOptions {
  /** Needed by orchestrators for callers from other machines: `dcnr key create`. */
  readonly apiKey?: string;
}

/** Where `dcnr up` and `dcnr orchestrator` listen unless told otherwise. */
const addressDefault = "127.0.0.1:7700";

/** A client of the orchestrator at `address` ("host:port" or a URL). Nothing is sent before the first call. */
export function connect(address: string = addressDefault, options: ConnectOptions = {}): Client {
  return new Client(address, { ...options, fetch: globalThis.fetch });
}

export type { JobFilter, JobSpecInit, QueueInit } from "./client/calls/jobs.ts";
export type { ChatTurn, ForwardInit, GeneratedPiece, GenerateOptions, GeneratePrompt } from "./client/calls/models.ts";
export { type SessionSettingsInit, trainSpec } from "./client/calls/sessions.ts";
export { Client } from "./client/client.ts";
export { addSamples, type Samples, type SamplesOptions, type SampleValue } from "./client/samples.ts";
export { DcnrError, type ErrorCode } from "./core/errors.ts";
export type { Metric } from "./protocol/gen/dcnr/v1/common_pb.ts";
export type { Dataset, Vocabulary } from "./protocol/gen/dcnr/v1/data_pb.ts";
export type { PNode, VNode } from "./protocol/gen/dcnr/v1/fleet_pb.ts";
export type { Model } from "./protocol/gen/dcnr/v1/inference_pb.ts";
export type { Job, JobEvent, Queue } from "./protocol/gen/dcnr/v1/job_pb.ts";
export type { Network } from "./protocol/gen/dcnr/v1/network_pb.ts";
export type { Session } from "./protocol/gen/dcnr/v1/session_pb.ts";
