// What follows for machines from a wrong answer. Whoever is named is asked to repeat it, which tells bad memory and another
// numerics class from a lie; it answers nobody from then on, and what proves it is kept, so that anybody who may read the store repeats it.

import { create, toJsonString } from "@bufbuild/protobuf";
import type { PNodeId } from "../../core/ids.ts";
import { GenerateTokensRequestSchema } from "../../protocol/gen/dcnr/v1/serving_pb.ts";
import { listItems } from "../../store/records/update.ts";
import type { Context } from "../context.ts";
import type { FaultKind, FindingRecord } from "../records/checking.ts";
import { pnodeName } from "../records/names.ts";
import type { ReplicaRecord } from "../records/sessions.ts";
import { key, prefix } from "../records/store-keys.ts";
import { isOfClass } from "../trust/auditors.ts";
import { noteFailure } from "../workloads/failures.ts";
import type { AnswerNeeds, GivenAnswer, Repetition } from "./given.ts";
import { areSame, blamed, type Repeated, type Ring, type Told, verdictOf } from "./judging.ts";
import { machinesOf } from "./rings.ts";

/** Answers of its replica that are checked for sure after one was wrong. */
const dueForSure = 5;
/** Wrong answers that are kept. */
const findingsMax = 50;

type Repeat = (replica: ReplicaRecord, pnode: PNodeId, given: GivenAnswer) => Promise<Repeated | undefined>;

export class AnswerVerdicts {
  readonly #context: Context;
  readonly #needs: AnswerNeeds;
  readonly #repeat: Repeat;

  constructor(context: Context, needs: AnswerNeeds, repeat: Repeat) {
    this.#context = context;
    this.#needs = needs;
    this.#repeat = repeat;
  }

  /** Two machines, or one that is trusted, come to something else than what was answered. Tells what was found. */
  async wrong(replica: ReplicaRecord, given: GivenAnswer, told: Told, truth: Repetition): Promise<string> {
    const { standings } = this.#needs;
    const ring = given.ring as Ring;
    const blame = given.request === "" ? moved : blamed(ring, given, told, truth.found);
    for (const pnode of machinesOf(ring))
      await standings.change(pnode, (standing) => ({ ...standing, due: Math.max(standing.due, dueForSure) }));
    switch (blame.kind) {
      case "nobody":
        this.#tell(replica, `${blame.what}; nobody is blamed, and the next answers are checked for sure`);
        return `wrong, and ${blame.what}`;
      case "seam":
        for (const [pnode, other] of [blame.pnodes, blame.pnodes.toReversed() as [PNodeId, PNodeId]]) {
          const story = `it and PNode ${this.#name(other)} served model ${given.model}: ${blame.what}`;
          await this.#fault(replica, given, pnode, "seam", story, other);
          await this.#takeAway(replica, ring, pnode);
        }
        return `wrong between ${blame.pnodes.map((pnode) => this.#name(pnode)).join(" and ")}`;
      case "machine": {
        const { pnode, what } = blame;
        const about = `it ${what}, as ${truth.trusted ? "a trusted machine" : "two machines"} found that repeated an answer of model ${given.model}`;
        await standings.doubt(pnode, `${about}: it is asked to repeat it`);
        const { kind, story } = await this.#examined(replica, given, pnode, truth.found, "answer");
        await this.#fault(replica, given, pnode, kind, `${about}; ${story}`);
        await this.#takeAway(replica, ring, pnode);
        return `wrong: PNode ${this.#name(pnode)} ${what}`;
      }
    }
  }

  /** Somebody said of a right answer that it was wrong. */
  async falseCheck(
    replica: ReplicaRecord,
    given: GivenAnswer,
    { pnode }: Repetition,
    truth: Repetition,
  ): Promise<void> {
    const about = `it repeated an answer of model ${given.model} and came to something else than those who answered and a third machine`;
    await this.#needs.standings.doubt(pnode, `${about}: it is asked again`);
    const { kind, story } = await this.#examined(replica, given, pnode, truth.found, "hardware");
    await this.#fault(replica, given, pnode, kind, `${about}; ${story}`);
  }

  /** What it comes to itself now. `once`: what it is if that is right. */
  async #examined(
    replica: ReplicaRecord,
    given: GivenAnswer,
    pnode: PNodeId,
    truth: Repeated,
    once: "answer" | "hardware",
  ): Promise<{ readonly kind: FaultKind; readonly story: string }> {
    const record = this.#context.mirror.get(key.pnode(pnode));
    if (record !== undefined && !isOfClass(record, replica))
      return { kind: "class", story: "it is of another numerics class by now" };
    const own = await this.#repeat(replica, pnode, given);
    if (own === undefined) return { kind: "silence", story: "asked to repeat it, it did not answer" };
    if (areSame(own, truth)) return { kind: once, story: "asked to repeat it, it got it right" };
    const kind = verdictOf(truth, own);
    if (kind === "class")
      return { kind, story: "asked to repeat it, it came to numbers that differ by rounding alone" };
    if (kind === "lie") return { kind, story: "asked to repeat it, it insisted on numbers far from everybody else's" };
    return { kind: once, story: "asked to repeat it, it came to something else once more" };
  }

  async #fault(
    replica: ReplicaRecord,
    given: GivenAnswer,
    pnode: PNodeId,
    kind: FaultKind,
    story: string,
    other?: PNodeId,
  ): Promise<void> {
    const { world } = this.#context;
    const { standings } = this.#needs;
    const wallMs = Math.round(world.clock.wallMs());
    const id = Buffer.from(world.chance.bytes(6)).toString("hex");
    await this.#keep({ ...evidenceOf(replica, given), id, wallMs, pnode, story });
    const fault = {
      ...{ wallMs, kind, after: standings.of(pnode).right, story, command: `dcnr audit answer ${id}` },
      ...(other ? { with: other } : {}),
    };
    await standings.fault(pnode, fault, replica.numericsClass);
    if (kind === "class" || kind === "seam") await standings.clear(pnode);
  }

  /** The oldest ones go. */
  async #keep(finding: FindingRecord): Promise<void> {
    const { store } = this.#context.mirror;
    await this.#context.mirror.update(key.finding(finding.wallMs, finding.id), (current) =>
      current ? undefined : finding,
    );
    const kept: FindingRecord[] = [];
    for await (const { record } of listItems<FindingRecord>(store, prefix.findings)) kept.push(record);
    for (const { wallMs, id } of kept.slice(0, Math.max(0, kept.length - findingsMax)))
      await this.#context.mirror.remove(key.finding(wallMs, id));
  }

  async #takeAway(replica: ReplicaRecord, ring: Ring, pnode: PNodeId): Promise<void> {
    for (const [vnode, owner] of ring.owners)
      if (owner.pnode === pnode)
        await noteFailure(this.#context, this.#needs.rooms, {
          ...{ workload: replica.id, vnode: vnode as never, pnode, epoch: owner.epoch },
          ...{ detail: "an answer was wrong", kind: "lapsed" },
        });
  }

  #tell({ id, model }: ReplicaRecord, what: string): void {
    this.#context.events.emit("error", "model.wrong", `an answer of model ${model} was wrong: ${what}`, {
      session: id,
    });
  }

  #name(pnode: PNodeId): string {
    return pnodeName(this.#context.mirror, pnode);
  }
}

const moved = { kind: "nobody", what: "machines changed while it was given" } as const;

function evidenceOf({ id, identity }: ReplicaRecord, { model, asked, answer, finish }: GivenAnswer) {
  const { definition, numerics, weights = "" } = identity;
  const states = Object.fromEntries(Object.entries(identity.states).map(([vnode, { hash }]) => [vnode, hash]));
  return {
    ...{ model, replica: id, answer, finish },
    work: { definition, numerics, states, weights },
    asked: toJsonString(GenerateTokensRequestSchema, create(GenerateTokensRequestSchema, { ...asked, session: id })),
  };
}
