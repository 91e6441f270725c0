// What is tried in homes behind routers, by name.

import type { Router } from "./houses.ts";

export interface Case {
  readonly homes: readonly Router[];
  /** Public machines that relay; without any the orchestrator does. */
  readonly volunteers?: number;
  /** What `dcnr nodes` has to say of every home. */
  readonly reached: RegExp;
  /** Whether volunteers carry what the homes exchange, or only what they need to find a way through their routers. */
  readonly tensors?: "by relay" | "directly";
  /** How homes behind a router that lets only 443 out join. */
  readonly websocket?: boolean;
  /** What happens in the middle of the training. */
  readonly middle?: "kill the relay" | "pull a cable";
}

const byOrchestrator = /^by relay of the orchestrators$/;
const byVolunteer = /^by relay relay-\d/;

export const cases = {
  "two homes behind cones": {
    ...{ homes: ["cone", "cone"], volunteers: 1, reached: byVolunteer },
    tensors: "directly",
  },
  "two homes behind symmetric routers": {
    ...{ homes: ["symmetric", "symmetric"], volunteers: 1, reached: byVolunteer },
    tensors: "by relay",
  },
  "one home of each": { homes: ["cone", "symmetric"], reached: byOrchestrator },
  "a router that lets only 443 out": {
    ...{ homes: ["443 only", "symmetric"], reached: byOrchestrator },
    websocket: true,
  },
  "the relay is killed in the middle": {
    ...{ homes: ["symmetric", "symmetric"], volunteers: 2, reached: byVolunteer },
    middle: "kill the relay",
  },
  "a home's cable is pulled": {
    ...{ homes: ["cone", "symmetric", "cone"], reached: byOrchestrator },
    middle: "pull a cable",
  },
} as const satisfies Record<string, Case>;

export type CaseName = keyof typeof cases;
