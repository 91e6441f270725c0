// Calls about sessions: trainings, their metrics, their states.

import { create, type MessageInitShape, toJson } from "@bufbuild/protobuf";
import {
  type Session,
  SessionService,
  SessionSettingsSchema,
  StateChoice,
} from "../../protocol/gen/dcnr/v1/session_pb.ts";
import { allPages, type Line } from "./line.ts";

export type SessionSettingsInit = MessageInitShape<typeof SessionSettingsSchema>;

/** For a job that trains: the settings as they stand in its spec. */
export function trainSpec(settings: SessionSettingsInit): Record<string, unknown> {
  return toJson(SessionSettingsSchema, create(SessionSettingsSchema, settings)) as Record<string, unknown>;
}

export const sessionCalls = (line: Line) => ({
  create: async (settings: SessionSettingsInit, options: { start?: boolean } = {}): Promise<Session> => {
    const method = SessionService.method.createSession;
    const { session } = await line.call(method, { settings, start: options.start ?? true });
    return session!;
  },
  start: async (id: string, expected?: SessionSettingsInit, options: { budget?: number } = {}): Promise<Session> => {
    const method = SessionService.method.startSession;
    const request = { id, ...(expected ? { expected } : {}), budget: BigInt(options.budget ?? 0) };
    const { session } = await line.call(method, request);
    return session!;
  },
  suspend: async (id: string): Promise<Session> => {
    const { session } = await line.call(SessionService.method.suspendSession, { id });
    return session!;
  },
  get: async (id: string): Promise<Session> => {
    const { session } = await line.call(SessionService.method.getSession, { id });
    return session!;
  },
  list: (): Promise<Session[]> =>
    allPages(async (pageToken) => {
      const page = await line.call(SessionService.method.listSessions, { pageToken });
      return { items: page.sessions, next: page.nextPageToken };
    }),
  watch: (id: string, signal?: AbortSignal) => line.watch(SessionService.method.watchSession, { id }, { signal }),
  delete: (id: string) => line.call(SessionService.method.deleteSession, { id }),
  metrics: (session: string, names: string[] = []) =>
    allPages(async (pageToken) => {
      const method = SessionService.method.listMetrics;
      const page = await line.call(method, { session, names, pageToken });
      return { items: page.metrics, next: page.nextPageToken };
    }),
  /** Addresses of all VNodes' states at the newest stored step, or at the one that validated best. */
  states: (session: string, choice: "last" | "best" = "last", provisional = false) =>
    line.call(SessionService.method.listStates, {
      session,
      choice: choice === "best" ? StateChoice.BEST : StateChoice.LAST,
      provisional,
    }),
  stepRoots: (session: string) =>
    allPages(async (pageToken) => {
      const method = SessionService.method.listStepRoots;
      const page = await line.call(method, { session, pageToken });
      return { items: page.roots, next: page.nextPageToken };
    }),
});
