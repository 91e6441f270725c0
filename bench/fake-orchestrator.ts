// Serves a fake fleet with our own protocol stack and the real dashboard on one port.

import type { MessageInitShape } from "@bufbuild/protobuf";
import { fail } from "../src/core/errors.ts";
import type { DashboardFiles } from "../src/dashboard/files.ts";
import { dashboardHandler } from "../src/dashboard/handler.ts";
import { FleetService } from "../src/protocol/gen/dcnr/v1/fleet_pb.ts";
import { InferenceService } from "../src/protocol/gen/dcnr/v1/inference_pb.ts";
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

/** Handlers that are not given refuse: the page must bear that. */
function partly(descriptor: Parameters<typeof service>[0], handlers: Record<string, unknown>): ServedService {
  const refuse = () => fail("unimplemented", "the fake orchestrator does not do this");
  const all = descriptor.methods.map(({ localName }) => [localName, handlers[localName] ?? refuse] as const);
  return { descriptor, handlers: Object.fromEntries(all) };
}

const pause = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms));

export async function serveFake(
  fleet: FakeFleet,
  files: DashboardFiles,
  stepMs: number,
  studies: readonly StudyInit[] = [],
): Promise<Server> {
  const clock = setInterval(() => fleet.advance(), stepMs);
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
    partly(NetworkService, { getNetwork: async () => fleet.network() }),
    partly(SessionService, {
      listMetrics: async () => ({ metrics: fleet.metrics(0) }),
      suspendSession: async (_: unknown, call: CallContext) => {
        if (call.header("authorization") !== `Bearer ${fakeKey}`) fail("unauthenticated", "a key is needed");
        fleet.suspended = true;
        return { session: fleet.session() };
      },
    }),
    partly(StudyService, {
      listStudies: async () => ({ studies: studies.map((study) => ({ ...study, trials: [], searched: [] })) }),
      getStudy: async ({ id }: { id: string }) => ({ study: studies.find((study) => study.id === id) }),
    }),
    partly(InferenceService, {
      listModels: async () => ({ models: [{ name: "gpt", status: "ready", source: sessionId, context: 1024 }] }),
      generate: async function* ({ prompt }: { prompt: string }, call: { signal: AbortSignal }) {
        const words = `${prompt} is what you said, and this goes on and on `.split(" ");
        for (let index = 0; index < 200 && !call.signal.aborted; index += 1) {
          yield { text: `${words[index % words.length]} ` };
          await pause(wordMs);
        }
        yield { finish: "length", generatedTokens: 200 };
      },
    }),
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
