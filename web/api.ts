// The orchestrator's services as the page calls them: Connect over fetch, same origin, nothing else.

import { Code, ConnectError, createClient } from "@connectrpc/connect";
import { createConnectTransport } from "@connectrpc/connect-web";
import { FleetService } from "../src/protocol/gen/dcnr/v1/fleet_pb.ts";
import { InferenceService } from "../src/protocol/gen/dcnr/v1/inference_pb.ts";
import { NetworkService } from "../src/protocol/gen/dcnr/v1/network_pb.ts";
import { SessionService } from "../src/protocol/gen/dcnr/v1/session_pb.ts";
import { StudyService } from "../src/protocol/gen/dcnr/v1/study_pb.ts";
import { noteRefusal, withKey } from "./access.ts";

const transport = createConnectTransport({
  baseUrl: location.origin,
  useBinaryFormat: true,
  interceptors: [withKey],
});

export const fleet = createClient(FleetService, transport);
export const networks = createClient(NetworkService, transport);
export const sessions = createClient(SessionService, transport);
export const studies = createClient(StudyService, transport);
export const inference = createClient(InferenceService, transport);

/** What went wrong, as a sentence for people; a missing key is asked for. */
export function sentence(thrown: unknown): string {
  noteRefusal(thrown);
  const error = ConnectError.from(thrown);
  if (error.code === Code.Unknown || error.code === Code.Unavailable)
    return error.rawMessage.includes("fetch") ? "the orchestrator does not answer" : error.rawMessage;
  return error.rawMessage;
}

/** An older orchestrator, or one that does not offer this. */
export function isMissing(thrown: unknown): boolean {
  const { code } = ConnectError.from(thrown);
  return code === Code.Unimplemented || code === Code.NotFound;
}
