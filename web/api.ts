// The orchestrator's services as the page calls them: Connect over fetch, same origin, nothing else.

import { Code, ConnectError, createClient } from "@connectrpc/connect";
import { createConnectTransport } from "@connectrpc/connect-web";
import { DatasetService } from "../src/protocol/gen/dcnr/v1/data_pb.ts";
import { FleetService } from "../src/protocol/gen/dcnr/v1/fleet_pb.ts";
import { InferenceService } from "../src/protocol/gen/dcnr/v1/inference_pb.ts";
import { JobService } from "../src/protocol/gen/dcnr/v1/job_pb.ts";
import { LedgerService } from "../src/protocol/gen/dcnr/v1/ledger_pb.ts";
import { MembershipService } from "../src/protocol/gen/dcnr/v1/membership_pb.ts";
import { NetworkService } from "../src/protocol/gen/dcnr/v1/network_pb.ts";
import { ReportService } from "../src/protocol/gen/dcnr/v1/report_pb.ts";
import { RightsService } from "../src/protocol/gen/dcnr/v1/rights_pb.ts";
import { SessionService } from "../src/protocol/gen/dcnr/v1/session_pb.ts";
import { StudyService } from "../src/protocol/gen/dcnr/v1/study_pb.ts";
import { TrustService } from "../src/protocol/gen/dcnr/v1/trust_pb.ts";
import { noteRefusal, withKey } from "./access.ts";

/** For panels with services of their own. */
export const transport = createConnectTransport({
  baseUrl: location.origin,
  useBinaryFormat: true,
  interceptors: [withKey],
});

export const datasets = createClient(DatasetService, transport);
export const fleet = createClient(FleetService, transport);
export const inference = createClient(InferenceService, transport);
export const jobs = createClient(JobService, transport);
export const ledger = createClient(LedgerService, transport);
export const membership = createClient(MembershipService, transport);
export const networks = createClient(NetworkService, transport);
export const reports = createClient(ReportService, transport);
export const rights = createClient(RightsService, transport);
export const sessions = createClient(SessionService, transport);
export const studies = createClient(StudyService, transport);
export const trust = createClient(TrustService, transport);

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
