// Answers of served models are checked afterwards: some are drawn, other machines repeat them from the model's blobs, and whoever
// made one wrong is named and sent away. What is drawn waits here, in memory and within bounds: a prompt is in no store unless its
// answer was wrong.

import { messageOf } from "../../core/errors.ts";
import type { PNodeId, ReplicaId } from "../../core/ids.ts";
import { ServingService } from "../../protocol/gen/dcnr/v1/serving_pb.ts";
import { withKey } from "../../protocol/routes/address.ts";
import type { Context } from "../context.ts";
import { pnodeName } from "../records/names.ts";
import type { ReplicaRecord } from "../records/sessions.ts";
import { key } from "../records/store-keys.ts";
import type { Candidate } from "../trust/asking.ts";
import { answerDrawContent, lot } from "../trust/lottery.ts";
import { auditRate, withRight } from "../trust/standing.ts";
import { AnswerVerdicts } from "./answer-verdicts.ts";
import { changeChecks, Repetitions } from "./checks.ts";
import { type AnswerNeeds, canBeRepeated, type GivenAnswer, type Repetition, repeatMs } from "./given.ts";
import { agrees, areSame, type Repeated, type Ring, type RowsTold } from "./judging.ts";
import { isSameRing, machinesOf, ringOf } from "./rings.ts";

/** Contested: machines come to different results, and nobody is there to tell who is right. It counts as unchecked. */
export type CheckOutcome = Counted | "contested";
type Counted = "right" | "wrong" | "unchecked";

/** Answers that wait to be checked, and tokens of all of them: some megabytes. */
const lockerMax = 128;
const lockerTokensMax = 500_000;
const checksAtOnce = 2;
const tellMs = 10_000;
/** Who is asked to repeat one answer, until one does. */
const triesMax = 3;

interface Waiting {
  readonly given: GivenAnswer;
  readonly isCanary: boolean;
  readonly draw: string;
  readonly done: (outcome: CheckOutcome) => void;
}

export class AnswerCare {
  readonly #context: Context;
  readonly #needs: AnswerNeeds;
  readonly #verdicts: AnswerVerdicts;
  readonly #repetitions: Repetitions;
  readonly #locker: Waiting[] = [];
  #checking = 0;

  constructor(context: Context, needs: AnswerNeeds) {
    this.#context = context;
    this.#needs = needs;
    this.#repetitions = new Repetitions(context, needs.presence);
    this.#verdicts = new AnswerVerdicts(context, needs, (replica, pnode, given) => this.#repeat(replica, pnode, given));
  }

  /** The replica whose answers are checked, and who makes it up; undefined where nobody checks. */
  async begin(id: ReplicaId): Promise<Ring | undefined> {
    const replica = this.#replica(id);
    return replica && ringOf(this.#context, this.#needs.compiled, replica);
  }

  /** An answer was given to somebody: perhaps it is checked. */
  given(given: GivenAnswer): void {
    if (!canBeRepeated(given) || this.#replica(given.replica) === undefined) return;
    this.#context.tasks.run("the draw of an answer", async () => {
      const draw = await this.#draw(given);
      if (lot(draw, given.replica) < this.#rateOf(given.ring))
        this.#keep({ given, isCanary: false, draw, done: () => {} });
    });
  }

  /** It was asked in order to be checked. */
  async tried(given: GivenAnswer): Promise<CheckOutcome> {
    const draw = await this.#draw(given);
    return new Promise((done) => this.#keep({ given, isCanary: true, draw, done }));
  }

  #draw({ replica, asked, answer }: GivenAnswer): Promise<string> {
    return this.#context.lottery.draw(answerDrawContent(replica, asked.prompt ?? [], answer));
  }

  #replica(id: ReplicaId): ReplicaRecord | undefined {
    const replica = this.#context.mirror.get(key.replica(id));
    return replica?.policy.audit ? replica : undefined;
  }

  /** As often as the one of them that is checked most. */
  #rateOf(ring: Ring | undefined): number {
    if (ring === undefined) return 1;
    return Math.max(...Array.from(machinesOf(ring), (pnode) => auditRate(this.#needs.standings.of(pnode))));
  }

  #keep(waiting: Waiting): void {
    const tokens = this.#locker.reduce((sum, { given }) => sum + tokensOf(given), tokensOf(waiting.given));
    if (this.#locker.length >= lockerMax || tokens > lockerTokensMax) {
      this.#context.tasks.run("an answer that nobody checks", () => this.#count(waiting, "unchecked", "too many wait"));
      waiting.done("unchecked");
      return;
    }
    this.#locker.push(waiting);
    this.#start();
  }

  #start(): void {
    if (this.#checking >= checksAtOnce) return;
    // What newcomers wait for comes first.
    const urgent = this.#locker.findIndex(({ isCanary }) => isCanary);
    const [next] = this.#locker.splice(Math.max(0, urgent), 1);
    if (next === undefined) return;
    this.#checking++;
    this.#context.tasks.run("the check of an answer", async () => {
      let outcome: CheckOutcome = "unchecked";
      try {
        outcome = await this.#check(next);
      } finally {
        this.#checking--;
        next.done(outcome);
        this.#start();
      }
    });
  }

  async #check(waiting: Waiting): Promise<CheckOutcome> {
    const { given, draw } = waiting;
    const replica = this.#replica(given.replica);
    if (replica === undefined || given.ring === undefined) return "unchecked";
    const machines = machinesOf(given.ring);
    const told = await this.#told(given, machines);
    const candidates = this.#needs.auditors.forAnswer(replica, draw, machines);
    const auditor = await this.#firstOf(replica, candidates, given);
    if (auditor === undefined) return this.#count(waiting, "unchecked", "nobody was there who could repeat it");
    if (agrees(given, told, auditor.found)) return this.#right(waiting, machines, auditor);
    const others = candidates.filter(({ pnode }) => pnode !== auditor.pnode);
    const judges = others.sort((a, b) => Number(b.trusted) - Number(a.trusted));
    const referee = await this.#firstOf(replica, judges, given);
    if (referee === undefined && !auditor.trusted)
      return this.#contested(waiting, "one machine comes to something else, and there is no third to tell");
    const truth = referee ?? auditor;
    if (areSame(truth.found, auditor.found)) {
      const story = await this.#verdicts.wrong(replica, given, told, truth);
      return this.#count(waiting, "wrong", story);
    }
    if (!agrees(given, told, truth.found))
      return this.#contested(waiting, "two machines that repeated it come to different results");
    await this.#verdicts.falseCheck(replica, given, auditor, truth);
    return this.#right(waiting, machines, truth);
  }

  /** What each machine says of what passed through it; nothing of those that are gone. */
  async #told(given: GivenAnswer, machines: ReadonlySet<PNodeId>): Promise<Map<PNodeId, RowsTold[]>> {
    const told = new Map<PNodeId, RowsTold[]>();
    const replica = this.#replica(given.replica);
    const now = replica && (await ringOf(this.#context, this.#needs.compiled, replica));
    if (given.request === "" || given.ring === undefined || !isSameRing(given.ring, now)) return told;
    const first = (given.asked.prompt?.length ?? 0) - 1;
    const request = {
      ...{ session: given.replica, request: given.request },
      ...{ rows: first + given.answer.length, first },
    };
    await Promise.all(
      Array.from(machines, async (pnode) => {
        const answer = await this.#needs.network
          .call(this.#addressOf(pnode), ServingService.method.tellRows, request, { timeoutMs: tellMs })
          .catch(() => undefined);
        if (answer) told.set(pnode, answer.told);
      }),
    );
    return told;
  }

  async #firstOf(
    replica: ReplicaRecord,
    candidates: readonly Candidate[],
    given: GivenAnswer,
  ): Promise<Repetition | undefined> {
    for (const candidate of candidates.slice(0, triesMax)) {
      const found = await this.#repeat(replica, candidate.pnode, given);
      if (found !== undefined) return { ...candidate, found };
    }
    return undefined;
  }

  /** Undefined if the machine could not, or did not answer. */
  async #repeat({ id }: ReplicaRecord, pnode: PNodeId, given: GivenAnswer): Promise<Repeated | undefined> {
    const { world, mirror } = this.#context;
    const asked = { ...given.asked, session: id, sent: [], request: "" };
    const request = { asked, answer: [...given.answer], finish: given.finish };
    const method = ServingService.method.checkAnswer;
    return this.#repetitions.during(id, pnode, async () => {
      try {
        return await this.#needs.network.call(this.#addressOf(pnode), method, request, { timeoutMs: repeatMs });
      } catch (thrown) {
        world.log("info", `PNode ${pnodeName(mirror, pnode)} repeats no answer: ${messageOf(thrown)}`);
        return undefined;
      }
    });
  }

  #addressOf(pnode: PNodeId): string {
    return withKey(this.#context.mirror.get(key.pnode(pnode))?.routes ?? "", pnode);
  }

  async #right(
    waiting: Waiting,
    machines: ReadonlySet<PNodeId>,
    { pnode, trusted }: Repetition,
  ): Promise<CheckOutcome> {
    const { standings } = this.#needs;
    const { mirror, world } = this.#context;
    const by = trusted ? "a trusted machine" : pnodeName(mirror, pnode);
    const story = `an answer of model ${waiting.given.model}: right, repeated by ${by}`;
    const last = { wallMs: world.clock.wallMs(), story };
    for (const one of machines)
      await standings.change(one, (standing) => ({
        ...withRight(standing, 1),
        audited: standing.audited + 1,
        due: Math.max(0, standing.due - 1),
        last,
      }));
    await standings.change(pnode, (standing) => ({ ...standing, audits: standing.audits + 1 }));
    return this.#count(waiting, "right", `right, repeated by ${by}`);
  }

  async #contested(waiting: Waiting, story: string): Promise<CheckOutcome> {
    await this.#count(waiting, "unchecked", story);
    return "contested";
  }

  async #count({ given, isCanary }: Waiting, outcome: Counted, story: string): Promise<CheckOutcome> {
    const last = { wallMs: this.#context.world.clock.wallMs(), story };
    await changeChecks(this.#context, given.replica, (checks) => ({
      ...checks,
      [outcome]: checks[outcome] + 1,
      canaries: checks.canaries + (isCanary ? 1 : 0),
      last,
    }));
    return outcome;
  }
}

function tokensOf({ asked, answer }: GivenAnswer): number {
  return (asked.prompt?.length ?? 0) + answer.length;
}
