// Questions of the network's own. A replica with machines that nobody knows yet answers one before it answers people, and every
// replica answers one now and then; each is checked. They look like what people ask: beginnings of everyday sentences, and from
// then on pieces of what the model itself has said, as they stand in every conversation that goes on.

import { Recent } from "../../core/caches/recent.ts";
import type { PNodeId, ReplicaId } from "../../core/ids.ts";
import type { Chance } from "../../core/world.ts";
import type { ChatTurn } from "../../models/chats/chat-template.ts";
import type { Context } from "../context.ts";
import type { ModelRecord, ReplicaRecord } from "../records/sessions.ts";
import { key, prefix } from "../records/store-keys.ts";
import { isLive } from "../records/workloads.ts";
import { findModel } from "../serving/models.ts";
import type { TextRequest } from "../serving/text.ts";
import type { Compiled } from "../sessions/compiled.ts";
import type { Auditors } from "../trust/auditors.ts";
import { levelOf } from "../trust/standing.ts";
import type { Standings } from "../trust/standings.ts";
import type { Leases } from "../workloads/leases.ts";
import type { AnswerCare, CheckOutcome } from "./answer-care.ts";
import { changeChecks } from "./checks.ts";
import { canBeRepeated, type GivenAnswer } from "./given.ts";
import type { Ring } from "./judging.ts";
import type { LatelyLost } from "./lately-lost.ts";
import { machinesOf, ringOf } from "./rings.ts";

/** On the average, of each replica. */
const canaryEveryMs = 600_000;
/** One question a second at most; then people no longer wait for one who might never come, or who says something else, or nothing, on purpose. */
const openMax = 30;
const openKept = 1_000;
const answerTokensLeast = 8;
const answerTokensMost = 32;
/** Of what a model has said to questions like these. */
const textsKept = 16;
const textLengthMax = 400;

const openings = [
  ...["How do I", "What is", "Why does", "Can you explain", "Write a short", "The", "I think that", "In the"],
  ...["Please summarise", "Give me an example of", "It was", "When I", "Tell me about", "Is it true that", "We"],
  ...["Translate this:", "My", "Which is better:", "There are", "Help me with", "After", "Could you", "For"],
];

/** Asks one replica, as anybody is answered. */
export type Try = (
  model: ModelRecord,
  replica: ReplicaId,
  request: TextRequest,
) => Promise<{ readonly given: GivenAnswer; readonly text: string }>;

export interface CanaryNeeds {
  readonly compiled: Compiled;
  readonly standings: Standings;
  readonly leases: Leases;
  readonly auditors: Pick<Auditors, "forAnswer" | "mayReturnFor">;
  readonly lost: Pick<LatelyLost, "has">;
  readonly care: AnswerCare;
}

export class Canaries {
  readonly #context: Context;
  readonly #needs: CanaryNeeds;
  readonly #texts = new Map<string, string[]>();
  readonly #tried = new Set<ReplicaId>();
  /** For whom, and how often in a row, nobody could tell whether they are right; some replicas end before anybody can. */
  readonly #open = new Recent<ReplicaId, { readonly newcomers: string; readonly times: number }>(openKept);
  /** Set once somebody can ask. */
  ask: Try | undefined;

  constructor(context: Context, needs: CanaryNeeds) {
    this.#context = context;
    this.#needs = needs;
  }

  /** Undefined if it may answer people; else what has to happen before. */
  async hindrance(id: ReplicaId): Promise<string | undefined> {
    const replica = this.#context.mirror.get(key.replica(id));
    if (replica === undefined) return undefined;
    const ring = await ringOf(this.#context, this.#needs.compiled, replica);
    // Between the verdict and the move of what it holds nobody may read its words, whether they would be checked or not.
    if (ring !== undefined && this.#holdsBarred(ring))
      return "one of its machines was sent away, and another takes over";
    if (replica.policy.audit === undefined) return undefined;
    // Whoever gets the missing part may be new.
    if (ring === undefined) return "part of it has no machine yet";
    if (!this.#isToProve(replica, ring)) return undefined;
    return "some of its machines are new, and answer a question of the network's own first";
  }

  #holdsBarred(ring: Ring): boolean {
    for (const pnode of machinesOf(ring)) if (this.#needs.standings.of(pnode).barred !== undefined) return true;
    return false;
  }

  /** Where nobody can repeat anything, or could a moment ago, nobody waits; as soon as somebody comes who can, newcomers are tried. */
  #isToProve(replica: ReplicaRecord, ring: Ring): boolean {
    if (this.#unproved(replica.id, ring).length === 0) return false;
    const { auditors, lost } = this.#needs;
    const machines = machinesOf(ring);
    if (auditors.forAnswer(replica, "", machines).length > 0) return true;
    return auditors.mayReturnFor(replica, machines, (pnode) => lost.has(pnode));
  }

  #unproved(id: ReplicaId, ring: Ring): PNodeId[] {
    const proved = this.#context.mirror.get(key.checks(id))?.proved ?? [];
    return [...machinesOf(ring)].filter(
      (pnode) => levelOf(this.#needs.standings.of(pnode)) === "newcomer" && !proved.includes(pnode),
    );
  }

  /** Whatever is due now; `sinceMs` ago it was looked at before. */
  look(sinceMs: number): void {
    const { mirror, world, tasks } = this.#context;
    for (const replica of mirror.under(prefix.replicas)) {
      if (!replica.policy.audit || !isLive(replica) || this.#tried.has(replica.id)) continue;
      if (!this.#needs.leases.isHeldHere(replica.id)) continue;
      const isDue = world.chance.uniform() < sinceMs / canaryEveryMs;
      this.#tried.add(replica.id);
      tasks.run("a question of the network's own", async () => {
        try {
          const ring = await ringOf(this.#context, this.#needs.compiled, replica);
          if (ring && (isDue || this.#isToProve(replica, ring))) await this.#try(replica, ring);
        } finally {
          this.#tried.delete(replica.id);
        }
      });
    }
  }

  async #try(replica: ReplicaRecord, ring: Ring): Promise<void> {
    const model = await findModel(this.#context, replica.model);
    if (model.context === 0) return this.#prove(replica.id, ring);
    let asked: Awaited<ReturnType<Try>>;
    try {
      if (this.ask === undefined) return;
      asked = await this.ask(model, replica.id, this.#request(model));
    } catch {
      // It still loads, or moves: asked again at the next look.
      return;
    }
    const { given, text } = asked;
    // Only those who answered have shown anything, and only by an answer that can be repeated.
    if (given.ring === undefined || !canBeRepeated(given)) return;
    const outcome = await this.#needs.care.tried(given);
    if (outcome === "wrong" || this.#isOpen(replica.id, given.ring, outcome)) return;
    if (outcome === "right") this.#remember(model.name, text);
    await this.#prove(replica.id, given.ring);
  }

  /**
   * Whether to wait for somebody who can tell who is right: machines often come one after another, and whoever is asked may be out
   * of reach for a moment. Newcomers for whom others have waited wait no shorter for that.
   */
  #isOpen(id: ReplicaId, ring: Ring, outcome: CheckOutcome): boolean {
    const newcomers = this.#unproved(id, ring).sort().join();
    const known = this.#open.get(id);
    const times = known?.newcomers === newcomers ? known.times + 1 : 1;
    const isOpen = outcome !== "right" && outcome !== "wrong" && newcomers !== "" && times <= openMax;
    if (isOpen) this.#open.set(id, { newcomers, times });
    else this.#open.delete(id);
    return isOpen;
  }

  async #prove(id: ReplicaId, ring: Ring): Promise<void> {
    if (this.#unproved(id, ring).length === 0) return;
    await changeChecks(this.#context, id, (checks) => ({
      ...checks,
      proved: [...new Set([...checks.proved, ...machinesOf(ring)])],
    }));
  }

  #remember(model: string, text: string): void {
    if (text.trim() === "") return;
    const texts = [...(this.#texts.get(model) ?? []), text.slice(0, textLengthMax)];
    this.#texts.set(model, texts.slice(-textsKept));
  }

  #request(model: ModelRecord): TextRequest {
    const { chance } = this.#context.world;
    const maxTokens = whole(chance, answerTokensLeast, Math.min(answerTokensMost, Math.max(1, model.context >> 1)));
    const isGreedy = chance.uniform() < 0.5;
    return {
      ...{ model: model.name, prompt: this.#prompt(model, maxTokens), maxTokens, stop: [] },
      sampling: {
        ...{ temperature: isGreedy ? 0 : 0.5 + chance.uniform() / 2, topK: 0, topP: 1, repetitionPenalty: 1 },
        ...{ frequencyPenalty: 0, presencePenalty: 0, logitBias: {}, seed: whole(chance, 0, 2 ** 31) },
      },
    };
  }

  #prompt(model: ModelRecord, maxTokens: number): TextRequest["prompt"] {
    const { chance } = this.#context.world;
    if (model.tokenizer === "") {
      const most = Math.max(1, Math.min(16, model.context - maxTokens - 1));
      const length = whole(chance, 1, most);
      return Array.from({ length }, () => whole(chance, 0, Math.max(0, model.vocabulary - 1)));
    }
    const opening = pick(chance, openings);
    const texts = this.#texts.get(model.name) ?? [];
    if (texts.length === 0) return model.converses ? { turns: [{ role: "user", content: opening }] } : opening;
    const said = pick(chance, texts);
    const piece = said.slice(whole(chance, 0, said.length >> 1));
    if (!model.converses) return `${opening} ${piece}`;
    const turns: ChatTurn[] = [
      { role: "user", content: opening },
      { role: "assistant", content: piece },
      { role: "user", content: pick(chance, openings) },
    ];
    return { turns };
  }
}

function whole(chance: Chance, least: number, most: number): number {
  return least + Math.floor(chance.uniform() * (Math.max(least, most) - least + 1));
}

function pick<T>(chance: Chance, values: readonly T[]): T {
  return values[Math.floor(chance.uniform() * values.length)] as T;
}
