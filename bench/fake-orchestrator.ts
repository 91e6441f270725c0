// Serves a fake fleet with our own protocol stack and the real dashboard on one port.

import type { MessageInitShape } from "@bufbuild/protobuf";
import { fail } from "../src/core/errors.ts";
import type { DashboardFiles } from "../src/dashboard/files.ts";
import { dashboardHandler } from "../src/dashboard/handler.ts";
import { DatasetService } from "../src/protocol/gen/dcnr/v1/data_pb.ts";
import { FleetService } from "../src/protocol/gen/dcnr/v1/fleet_pb.ts";
import { InferenceService } from "../src/protocol/gen/dcnr/v1/inference_pb.ts";
import { MembershipService } from "../src/protocol/gen/dcnr/v1/membership_pb.ts";
import { NetworkService } from "../src/protocol/gen/dcnr/v1/network_pb.ts";
import { SessionService } from "../src/protocol/gen/dcnr/v1/session_pb.ts";
import { type StudySchema, StudyService } from "../src/protocol/gen/dcnr/v1/study_pb.ts";
import { openGrpcNetwork } from "../src/protocol/grpc.ts";
import type { CallContext, ServedService, Server, service } from "../src/protocol/network.ts";
import { backgroundTimers } from "../src/system/timers.ts";
import { type FakeFleet, sessionId } from "./fake-fleet.ts";

type StudyInit = Exclude<MessageInitShape<typeof StudySchema>, { readonly $typeName: "dcnr.v1.Study" }>;

/** What the fake asks for before it suspends anything. */
export const fakeKey = "dcnr-fake-key";
const frameMs = 250;
const wordMs = 60;
/** A minute: whoever presses Stop on a busy machine is in time. */
const wordsMax = 1_000;

/** Handlers that are not given refuse: the page must bear that. */
export function partly(descriptor: Parameters<typeof service>[0], handlers: Record<string, unknown>): ServedService {
  const refuse = () => fail("unimplemented", "the fake orchestrator does not do this");
  const all = descriptor.methods.map(({ localName }) => [localName, handlers[localName] ?? refuse] as const);
  return { descriptor, handlers: Object.fromEntries(all) };
}

const pause = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms));

export interface FakeOptions {
  readonly studies?: readonly StudyInit[];
  /** What else it knows: jobs, queues, balances, a report. */
  readonly handlers?: readonly ServedService[];
}

export async function serveFake(
  fleet: FakeFleet,
  files: DashboardFiles,
  stepMs: number,
  { studies = [], handlers = [] }: FakeOptions = {},
): Promise<Server> {
  const clock = setInterval(() => fleet.advance(), stepMs);
  const needsKey = (call: CallContext) => {
    if (call.header("authorization") !== `Bearer ${fakeKey}`) fail("unauthenticated", "a key is needed");
  };
  const services = [
    partly(FleetService, {
      listEvents: async () => ({ events: fleet.events }),
      listVNodes: async () => ({ vnodes: fleet.frame().vnodes }),
      watchFleet: async function* (_: unknown, call: { signal: AbortSignal }) {
        let told = 0;
        let toldStep = 0;
        while (!call.signal.aborted) {
          const events = fleet.events.slice(told);
          told = fleet.events.length;
          yield { ...fleet.frame(), events, metrics: fleet.metrics(toldStep) };
          toldStep = fleet.step;
          await pause(frameMs);
        }
      },
    }),
    partly(NetworkService, {
      getNetwork: async () => fleet.network(),
      listNetworks: async () => ({ networks: fleet.isEmpty ? [] : [{ id: "gpt" }] }),
    }),
    partly(DatasetService, { listDatasets: async () => ({ datasets: [{ name: "books" }] }) }),
    partly(SessionService, {
      listMetrics: async ({ session, names }: { session: string; names: string[] }) => ({
        metrics: fleet.metrics(0, session).filter(({ name }) => names.length === 0 || names.includes(name)),
      }),
      listSessions: async () => ({ sessions: fleet.sessions() }),
      getSession: async ({ id }: { id: string }) => ({ session: fleet.sessions().find((one) => one.id === id) }),
      suspendSession: async (_: unknown, call: CallContext) => {
        needsKey(call);
        fleet.suspended = true;
        return { session: fleet.session() };
      },
    }),
    partly(MembershipService, {
      drainPNode: async ({ pnode, undo }: { pnode: string; undo: boolean }) => {
        if (undo) fleet.drained.delete(pnode);
        else fleet.drained.add(pnode);
        return {};
      },
      createInvite: async () => ({
        token: "fake-token",
        networkKey: "k".repeat(52),
        orchestrators: ["192.0.2.1:7700"],
        expiresWallMs: BigInt(Date.now() + 86_400_000),
      }),
    }),
    partly(StudyService, {
      listStudies: async () => ({ studies: studies.map((study) => ({ ...study, trials: [], searched: [] })) }),
      getStudy: async ({ id }: { id: string }) => ({ study: studies.find((study) => study.id === id) }),
    }),
    partly(InferenceService, {
      listModels: async () => ({
        models: fleet.isEmpty ? [] : [{ name: "gpt", status: "ready", source: sessionId, context: 1024 }],
      }),
      generate: async function* ({ prompt }: { prompt: string }, call: { signal: AbortSignal }) {
        const words = `${prompt} is what you said, and this goes on and on `.split(" ");
        for (let index = 0; index < wordsMax && !call.signal.aborted; index += 1) {
          yield { text: `${words[index % words.length]} `, tokens: [index], replica: "gpt@fake" };
          await pause(wordMs);
        }
        yield { finish: "length", generatedTokens: wordsMax };
      },
    }),
    ...handlers,
  ];
  const network = openGrpcNetwork({ timers: backgroundTimers });
  const server = await network.serve(
    "127.0.0.1:0",
    services,
    dashboardHandler(async () => files),
  );
  return {
    ...server,
    close: async () => {
      clearInterval(clock);
      await server.close();
      await network.close();
    },
  };
}
