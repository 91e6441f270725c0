// Deliberate faults of membership: one part exchanged for a broken one. Each must show in some of a few dozen worlds.

import type { KeyChecks } from "../../src/core/keys.ts";
import { idOfNews, type News } from "../../src/membership/member.ts";
import {
  type Gossip,
  type MembershipEffect,
  type MembershipEvent,
  Swim,
  type SwimOptions,
} from "../../src/membership/swim.ts";
import { simulatedKeys } from "../world/keys.ts";
import type { MembershipAim, MembershipViolation } from "./plan.ts";

export interface MembershipMutant {
  readonly fault: string;
  readonly shows: readonly MembershipViolation["kind"][];
  readonly aim?: MembershipAim;
  readonly keys?: KeyChecks;
  readonly openGossip?: (options: SwimOptions) => Gossip;
  readonly reminds?: false;
}

/** Production gossip whose events or effects are changed on their way. */
function wrapped(
  change: (inner: Gossip, event: MembershipEvent, options: SwimOptions) => MembershipEffect[],
): (options: SwimOptions) => Gossip {
  return (options) => {
    const inner = new Swim(options);
    return {
      get self() {
        return inner.self;
      },
      roster: inner.roster,
      step: (event) => change(inner, event, options),
      newsFor: (to) => inner.newsFor(to),
    };
  };
}

function withNews(event: MembershipEvent, change: (news: readonly News[]) => readonly News[]): MembershipEvent {
  return event.kind === "heard" || event.kind === "answered" ? { ...event, news: change(event.news) } : event;
}

export const membershipMutants: Readonly<Record<string, MembershipMutant>> = {
  "no-refutation": {
    fault: "a member does not answer for itself when it is accused",
    shows: ["views differ"],
    aim: "pauses",
    openGossip: wrapped((inner, event) =>
      inner.step(
        withNews(event, (news) => news.filter((one) => one.kind === "record" || idOfNews(one) !== inner.self.id)),
      ),
    ),
  },
  "unsigned-record": {
    fault: "a record is taken whoever signed it",
    shows: ["forged", "views differ"],
    aim: "liar",
    keys: { ...simulatedKeys, verify: () => true },
  },
  "older-wins": {
    fault: "an older record replaces a newer one",
    shows: ["forged", "views differ"],
    openGossip: wrapped((inner, event) =>
      inner.step(
        withNews(event, (news) =>
          news.map((one) => {
            if (one.kind !== "record") return one;
            const known = inner.roster.get(one.member.id)?.member;
            if (known === undefined || one.member.sequence >= known.sequence) return one;
            return { ...one, member: { ...one.member, sequence: known.sequence + 1 } };
          }),
        ),
      ),
    ),
  },
  "dead-for-ever": {
    fault: "the dead are never called again",
    shows: ["views differ"],
    aim: "split without the contact",
    openGossip: wrapped((inner, event) =>
      inner
        .step(event)
        .filter((effect) => effect.kind !== "sync" || inner.roster.get(effect.with.id)?.standing !== "dead"),
    ),
  },
  "forgotten-for-ever": {
    fault: "a machine that has lost its disk is told by nobody that it was let in",
    shows: ["views differ"],
    reminds: false,
  },
  "blames-others": {
    fault: "a process that stood still takes its own standstill for the silence of others",
    shows: ["wrong burial"],
    aim: "pauses",
    openGossip: (options) => {
      let dueMs: number | undefined;
      return wrapped((inner, event) => {
        const effects: MembershipEffect[] = [];
        // As if each tick had come on time.
        for (; dueMs !== undefined && dueMs + 200 < event.nowMs; dueMs += 500)
          effects.push(...inner.step({ kind: "tick", nowMs: dueMs }).filter(({ kind }) => kind !== "wait"));
        const last = inner.step(event);
        for (const effect of last) if (effect.kind === "wait") dueMs = event.nowMs + effect.delayMs;
        return [...effects, ...last];
      })(options);
    },
  },
};
