// Answers of other machines that this one is asked to repeat: one at a time, within the memory that it lends.

import { fail } from "../../core/errors.ts";
import { parseWorkloadId, type ReplicaId } from "../../core/ids.ts";
import { untilEither } from "../../core/signals.ts";
import type { World } from "../../core/world.ts";
import type { EngineKind, Executor } from "../../engine/engine.ts";
import { canGenerate, contextOf } from "../../network/graphs/generation.ts";
import { servingBytesOf } from "../../network/memory.ts";
import type { CheckAnswerRequest } from "../../protocol/gen/dcnr/v1/serving_pb.ts";
import type { BlobClient } from "../blob-client.ts";
import type { Room } from "../room.ts";
import type { Schemas } from "../serving/schemas.ts";
import { ServingContext, type ServingNeeds } from "../serving/serving-context.ts";
import { tokenRequest } from "../serving/token-request.ts";
import { type RepeatedAnswer, repeatAnswer } from "./repeat-answer.ts";

export interface AnswerCheckNeeds extends ServingNeeds {
  readonly world: World;
  readonly blobs: BlobClient;
  readonly room: Room;
  readonly executorFor: (engine: EngineKind) => Promise<Executor>;
  readonly schemas: Schemas;
}

/** Whoever asks beyond that asks somebody else. */
const waitingMax = 8;

export class AnswerCheck {
  readonly #needs: AnswerCheckNeeds;
  #turn: Promise<unknown> = Promise.resolve();
  #waiting = 0;
  #count = 0;

  constructor(needs: AnswerCheckNeeds) {
    this.#needs = needs;
  }

  /** Fails with `resource_exhausted` if this machine has no room for it. */
  async check(request: CheckAnswerRequest, asking: AbortSignal): Promise<RepeatedAnswer> {
    if (this.#waiting >= waitingMax)
      fail("resource_exhausted", `${waitingMax} answers wait to be checked here already`);
    this.#waiting++;
    const checked = this.#turn.then(() =>
      untilEither([asking, this.#needs.signal], (signal) => this.#repeat(request, signal)),
    );
    this.#turn = checked.catch(() => {});
    return checked.finally(() => this.#waiting--);
  }

  async #repeat({ asked, answer, finish }: CheckAnswerRequest, signal: AbortSignal): Promise<RepeatedAnswer> {
    signal.throwIfAborted();
    if (!asked) fail("invalid_argument", "the question is missing");
    const replica = parseWorkloadId(asked.session) as ReplicaId;
    const { blobs, room, executorFor, schemas, world } = this.#needs;
    const context = await ServingContext.open(replica, this.#needs);
    if (!canGenerate(context.plan)) fail("failed_precondition", `${replica} does not generate text`);
    const request = tokenRequest({ ...asked, sent: [] }, context.plan.inputs?.below ?? 0, context.adapters);
    if (request.prompt.length === 0) fail("invalid_argument", "the prompt has a token at least");
    if (answer.length === 0 && finish !== "stop")
      fail("invalid_argument", "an answer without tokens is one that ended by itself");
    if (request.prompt.length + answer.length > contextOf(context.plan))
      fail("invalid_argument", "prompt and answer are longer than the model's context");
    const constraint = await schemas.constraintOf(asked, context);
    const name = `check ${replica} ${++this.#count}`;
    const bytes = Array.from(context.needed, (id) => servingBytesOf(context.plan, context.vnode(id), context.weights));
    room.takeAhead(name, Math.max(...bytes));
    world.log("info", `repeating an answer of ${replica}`, { session: replica });
    try {
      const openState = (state: Parameters<typeof blobs.openState>[1]) =>
        blobs.openState(replica, state, `a state of ${replica} to check`, signal);
      const executor = await executorFor(context.numerics);
      return await repeatAnswer(
        { context, executor, openState, name, signal },
        { asked: { ...request, constraint }, answer, finish },
      );
    } finally {
      room.giveBackAhead(name);
    }
  }
}
