// Crews that break one of the rules by which sessions go on without orchestrators, each in worlds in which that rule decides.

import type { CrewRules } from "../../src/crew/crew.ts";
import { living } from "../../src/crew/crew.ts";
import type { VNodeRecord } from "../../src/orchestrator/records/vnodes.ts";
import { SessionPeerService } from "../../src/protocol/gen/dcnr/v1/session_peers_pb.ts";
import type { CrewAim } from "../crew-worlds.ts";
import type { Mutant } from "./mutant.ts";
import { type Loose, onCall, onEvent, rewriting } from "./mutant.ts";

const breaking = (crew: CrewAim, crewRules: Partial<CrewRules>) => ({ crew, crewRules }) as const;

export const crewMutants: Readonly<Record<string, Mutant>> = {
  "keeps-states-to-itself": {
    fault: "owners have their states kept by nobody else",
    shows: ["hang", "line"],
    ...breaking("owner dies", { keepers: () => [] }),
  },
  "counts-dead-holders": {
    fault: "a line moves on states that only the dead hold",
    shows: ["line", "hang"],
    ...breaking("holders die", { counts: () => true }),
  },
  "does-not-enlist-again": {
    fault: "a PNode that has lost its disk is never of the crew again",
    shows: ["hang"],
    crew: "disks are lost",
    tamper: () =>
      onCall(SessionPeerService.method.enlist, "input", (request: Loose) => ({ ...request, charter: undefined })),
  },
  "another-class-takes-over": {
    fault: "a PNode that rounds otherwise takes a VNode over",
    shows: ["divergence", "error", "durable"],
    ...breaking("other class", { mayHost: () => true }),
  },
  "learns-no-line-from-others": {
    fault: "a PNode does not follow the line by which others have thrown messages away",
    shows: ["line"],
    ...breaking("split", { lineAfter: (line) => line }),
  },
  "needs-a-majority": {
    fault: "nobody takes over unless it hears more than half of the crew",
    shows: ["hang"],
    ...breaking("few are left", {
      mayHost: (state, nowMs, timings) =>
        state.charter.crew.get(state.self.pnode)?.hosts === true &&
        2 * living(state, nowMs, timings).length > state.charter.crew.size,
    }),
  },
  "stays-below-the-line": {
    fault: "a VNode goes on below the line of its PNode",
    shows: ["hang"],
    ...breaking("split", { staysBelowTheLine: true }),
  },
  "losers-go-on": {
    fault: "a PNode goes on with what somebody else has taken over",
    shows: ["fence"],
    ...breaking("owner stands still", { losersGoOn: true }),
  },
  "takeovers-are-not-told": {
    fault: "orchestrators that come back do not hear who has taken what over",
    shows: ["hang", "fence"],
    crew: "owner stands still",
    tamper: () => onEvent("heartbeat", (value) => ({ ...value, crews: [] })),
  },
  "adopts-without-an-epoch": {
    fault: "an orchestrator that comes back grants no epoch above a takeover",
    shows: ["fence", "hang"],
    crew: "owner dies",
    store: (view, records) =>
      rewriting(view, "vnode", (record: VNodeRecord) => {
        const before = records.vnode(record.session, record.vnode);
        const isAdopted = record.members.some(({ reason }) => reason.startsWith("it took the VNode over"));
        return before && isAdopted && record.epoch === before.epoch + 1 ? { ...record, epoch: before.epoch } : record;
      }),
  },
  "loses-the-trail": {
    fault: "keepers are not given the hashes of the steps before a state",
    shows: ["divergence"],
    crew: "owner dies",
    tamper: () => onCall(SessionPeerService.method.keep, "input", (request: Loose) => ({ ...request, trail: "" })),
  },
};
