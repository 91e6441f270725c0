// Calls by which a member finds out whether others live, and tells them that it goes. What follows from the answers swim.ts decides.

import { fail, hasCode } from "../core/errors.ts";
import { GossipService } from "../protocol/gen/dcnr/v1/gossip_pb.ts";
import type { Network } from "../protocol/network.ts";
import type { Member, MemberId, News } from "./member.ts";
import { forgottenCode, fromOf, networkToWire, routeTo, type Taking } from "./service.ts";
import type { Gossip, MembershipEffect } from "./swim.ts";
import { newsToWire } from "./wire.ts";

export interface AskingNeeds {
  readonly network: Network;
  readonly signal: AbortSignal;
  /** Undefined once it does not take part any more. */
  readonly taking: () => Taking | undefined;
  readonly hear: (from: MemberId, news: readonly News[]) => void;
}

/** Whoever goes tells so many. */
const farewells = 6;
const farewellMs = 1_000;
const remindMs = 5_000;

export class Asking {
  readonly #needs: AskingNeeds;

  constructor(needs: AskingNeeds) {
    this.#needs = needs;
  }

  /** Fails without an answer. `stranger`: the other does not know this member. */
  async probe({ to, news, timeoutMs }: MembershipEffect & { kind: "probe" }) {
    const { network, signal, taking } = this.#needs;
    const request = { from: this.#from, news: newsToWire(news) };
    const response = await network.call(routeTo(to), GossipService.method.probe, request, { timeoutMs, signal });
    const heard = (await taking()?.reader.news(response.news)) ?? [];
    return { news: heard, stranger: response.stranger };
  }

  /** Helpers probe the target, and this member does once more. `answers`: how many helpers said anything. */
  async tryAgain({ target, helpers, timeoutMs }: MembershipEffect & { kind: "try" }) {
    const { network, signal, taking, hear } = this.#needs;
    const from = this.#from;
    let answers = 0;
    const options = { timeoutMs, signal };
    const asked = helpers.map(async (helper) => {
      const request = { from, target: target.id, timeoutMs: Math.round(0.75 * timeoutMs), news: [] };
      const response = await network.call(routeTo(helper), GossipService.method.probeVia, request, options);
      answers += 1;
      hear(helper.id, (await taking()?.reader.news(response.news)) ?? []);
      if (!response.reached) fail("unavailable", "a helper has no answer either");
    });
    const again = async () => {
      const request = { from, news: newsToWire(taking()?.gossip.newsFor(target.id) ?? []) };
      const response = await network.call(routeTo(target), GossipService.method.probe, request, options);
      hear(target.id, (await taking()?.reader.news(response.news)) ?? []);
    };
    const isReached = await Promise.any([again(), ...asked]).then(
      () => true,
      () => false,
    );
    return { reached: isReached, answers };
  }

  /**
   * A machine that was asked as a member and said that it is none has lost its disk, and with it the permit that its own record holds. While no
   * orchestrator is there it would stay nobody: not be found as a relay, nor take anybody's word.
   */
  async remind(member: Member, refusal: unknown): Promise<void> {
    const { networkKey } = this.#needs.taking() ?? {};
    const isForgotten = hasCode(refusal, forgottenCode) && !member.roles.includes("orchestrator");
    if (!isForgotten || networkKey === undefined) return;
    const { network, signal } = this.#needs;
    const request = { record: member.signed, ...networkToWire(networkKey) };
    const options = { timeoutMs: remindMs, signal };
    // Whoever asks it next notices if this does not come through.
    await network.call(routeTo(member), GossipService.method.remind, request, options).catch(() => {});
  }

  /** Tells some of those who are here what it says of itself last. */
  async farewell(gossip: Gossip, uniform: () => number): Promise<void> {
    const others = new Map<MemberId, Member>();
    for (let attempt = 0; attempt < farewells; attempt++) {
      const known = gossip.roster.pick(
        uniform,
        ({ member, standing }) => standing === "alive" && member.routes.length > 0 && !others.has(member.id),
      );
      if (known !== undefined) others.set(known.member.id, known.member);
    }
    const news = newsToWire([{ kind: "record", member: gossip.self }]);
    const request = { from: this.#from, news };
    const calls = [...others.values()].map((member) =>
      this.#needs.network.call(routeTo(member), GossipService.method.probe, request, { timeoutMs: farewellMs }),
    );
    await Promise.allSettled(calls);
  }

  get #from(): string {
    const { gossip } = this.#needs.taking() ?? {};
    return gossip === undefined ? "" : fromOf(gossip.self);
  }
}
