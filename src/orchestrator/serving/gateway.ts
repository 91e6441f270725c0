// From text to an answer: tokens go to the PNode beside the model's head and come back as they are chosen. If that
// PNode is lost, the next one repeats what was sent and goes on; the reader notices a pause at most.

import { runAside } from "../../core/aside.ts";
import { DcnrError, fail, hasCode } from "../../core/errors.ts";
import type { ReplicaId } from "../../core/ids.ts";
import { Retries, type RetryOptions, retry } from "../../core/retry.ts";
import { whileHeard } from "../../core/signs.ts";
import { decodeTokenBytes, type TokenTable } from "../../data/bpe/token-table.ts";
import { CallReader } from "../../models/chats/tools.ts";
import { checkingSchema } from "../../models/grammar/works.ts";
import { type ForwardTensorsResponse, ServingService } from "../../protocol/gen/dcnr/v1/serving_pb.ts";
import type { Network, RequestInit } from "../../protocol/network.ts";
import type { AnswerCare } from "../answers/answer-care.ts";
import type { Canaries } from "../answers/canaries.ts";
import type { GivenAnswer } from "../answers/given.ts";
import type { ModelRecord } from "../records/sessions.ts";
import { adapterMark } from "../records/speakers.ts";
import { answerText, bareTokens, type TokenBatch, withCalls } from "./answer.ts";
import { type Loads, ModelLoads, type Outcome, type Request } from "./loads.ts";
import { findModel, findSpeaker, listModels } from "./models.ts";
import { isChat, Prompts } from "./prompts.ts";
import { ReplicaGone, type ReplicaNeeds, Replicas } from "./replicas.ts";
import { guessingOf, type StatusNeeds, statusOf, weightsOf } from "./status.ts";
import {
  BadSchema,
  type Embedding,
  type EmbedRequest,
  maxTokensMax,
  type ServedModel,
  stopWordLengthMax,
  stopWordsMax,
  type TextGenerator,
  type TextPiece,
  type TextRequest,
} from "./text.ts";

/** How long an answer waits for a lost PNode to be replaced, or a model to be placed. */
const patienceMs = 60_000;
const retryMinMs = 100;
const retryMaxMs = 400;
/** Four signs of a PNode (src/pnode/serving/servings.ts) that did not come. */
const silentMs = 20_000;

type Forward = RequestInit<typeof ServingService.method.forwardTensors>;
type Tokens = RequestInit<typeof ServingService.method.generateTokens>;

export interface GatewayNeeds extends ReplicaNeeds, StatusNeeds {
  readonly network: Network;
  /** Some answers are checked afterwards. */
  readonly answers: AnswerCare;
  /** Replicas of newcomers are tried before they answer anybody. */
  readonly canaries: Pick<Canaries, "hindrance">;
  /** Gives a model that has gone to zero a replica. */
  wake(model: ModelRecord): Promise<ModelRecord>;
}

export class Gateway implements TextGenerator {
  readonly #needs: GatewayNeeds;
  readonly #replicas: Replicas;
  readonly #prompts: Prompts;
  readonly loads: ModelLoads;

  constructor(needs: GatewayNeeds) {
    this.#needs = needs;
    this.#replicas = new Replicas(needs);
    this.#prompts = new Prompts(needs.context);
    this.loads = new ModelLoads(needs.context.world.clock);
  }

  /** What is asked of models here, as others are told. */
  told(): Loads {
    return { models: this.loads.models(), replicas: this.#replicas.requests() };
  }

  async models(): Promise<ServedModel[]> {
    const served = (await listModels(this.#needs.context)).filter(
      (model) => (model.replicas.length > 0 || model.scaling !== undefined) && model.context > 0,
    );
    return served.flatMap((model) => {
      const { createdWallMs, context, adapters = [] } = model;
      const facts = {
        ...{ createdWallMs, context },
        ...statusOf(this.#needs, model),
        ...weightsOf(this.#needs, model),
        ...guessingOf(this.#needs, model),
      };
      const names = [model.name, ...adapters.map((adapter) => `${model.name}${adapterMark}${adapter}`)];
      return names.map((name) => ({ name, ...facts }));
    });
  }

  async *generate(request: TextRequest, signal: AbortSignal): AsyncGenerator<TextPiece> {
    checkLimits(request);
    const { model, adapter } = await findSpeaker(this.#needs.context, request.model);
    if (model.context === 0) fail("failed_precondition", `model ${model.name} does not generate text`);
    const { table, ids, stop, endTokens, schema, calls } = await this.#prompts.of(model, request);
    const shape = await this.#schema(model, schema ?? request.schema);
    const wanted = { ...wantedOf(request, ids, endTokens), ...shape, adapter };
    const asked = this.loads.begin(model.name, ids.length);
    let outcome: Outcome = "cancelled";
    try {
      if (request.echo)
        yield { text: promptText(request, table, ids), tokens: [], promptTokens: ids.length, generatedTokens: 0 };
      const tokens = this.#tokens(await this.#needs.wake(model), wanted, signal, asked);
      const text = table && answerText(tokens, table, [...request.stop, ...stop], ids.length, !isChat(request.prompt));
      const reader = calls && new CallReader(calls.format, calls.forced, request.oneCall);
      const called = text && reader ? withCalls(text, reader) : text;
      for await (const piece of called ?? bareTokens(tokens, ids.length)) {
        outcome = piece.finish ?? outcome;
        yield piece;
      }
    } catch (error) {
      outcome = "failed";
      throw error;
    } finally {
      asked.ended(outcome);
    }
  }

  /** Asks one replica alone, whether or not it may answer people. Fails if it does not answer at once. */
  async tried(model: ModelRecord, replica: ReplicaId, request: TextRequest, signal: AbortSignal) {
    const { table, ids, endTokens } = await this.#prompts.of(model, request);
    const asked = wantedOf(request, ids, endTokens);
    const ring = await this.#needs.answers.begin(replica);
    const address = await this.#replicas.head(model, replica);
    const answer: number[] = [];
    const told = { finish: "", request: "" };
    const release = this.#replicas.occupy(replica);
    try {
      const method = ServingService.method.generateTokens;
      const wanted = { ...asked, session: replica };
      for await (const { tokens, finish, request: name } of this.#heard(
        model,
        this.#needs.network.watch(address, method, wanted, { signal }),
      )) {
        answer.push(...tokens);
        told.finish ||= finish;
        told.request ||= name;
      }
    } finally {
      release();
    }
    if (told.finish === "") fail("unavailable", `the answer of model ${model.name} broke off`);
    const given: GivenAnswer = { ...{ model: model.name, replica, asked, answer, ring }, ...told };
    return { given, text: table ? new TextDecoder().decode(decodeTokenBytes(table, answer)) : "" };
  }

  /** Read here first: an error is told before anything is computed, whoever is asked then. */
  async #schema({ name, tokenizer }: ModelRecord, schema = ""): Promise<{ schema?: string; tokenizer?: string }> {
    if (schema === "") return {};
    if (tokenizer === "")
      fail("failed_precondition", `model ${name} has no tokenizer: nobody knows how its answers are written`);
    await runAside(this.#needs.context.aside, checkingSchema, { schema, place: "schema" }).catch((thrown: unknown) => {
      const { code, message } = DcnrError.from(thrown);
      throw new BadSchema(code, message);
    });
    return { schema, tokenizer };
  }

  /** One replica answers from beginning to end, whichever PNodes come and go. */
  async *#tokens(model: ModelRecord, wanted: Tokens, signal: AbortSignal, asked: Request): AsyncGenerator<TokenBatch> {
    const sent: number[] = [];
    const full = new Set<ReplicaId>();
    const gone = new Set<ReplicaId>();
    const retries = new Retries(this.#patience(signal));
    const checked = new CheckedAnswer(this.#needs.answers, model.name, wanted);
    const prompt = (wanted.prompt ?? []) as readonly number[];
    const { choice } = this.#replicas;
    for (let replica = this.#replicas.choose(model, prompt, full); ; ) {
      // The reader may have gone while the model woke up, or between two attempts: nobody would hear of it below.
      if (signal.aborted) return;
      let failure: unknown;
      let heardMs = 0;
      const release = this.#replicas.occupy(replica);
      const stop = new AbortController();
      const abort = () => stop.abort();
      signal.addEventListener("abort", abort, { once: true });
      try {
        const address = await this.#place(model, replica);
        await checked.begin(replica);
        const request = { ...wanted, session: replica, sent };
        const method = ServingService.method.generateTokens;
        choice.asked(replica, model.name, prompt);
        const pieces = this.#needs.network.watch(address, method, request, { signal: stop.signal });
        for await (const { tokens, logprobs, finish, request: name } of this.#heard(model, pieces)) {
          // A sign that it is still at it.
          if (tokens.length === 0 && !finish) continue;
          sent.push(...tokens);
          checked.heard(tokens, name, finish);
          asked.answered(tokens.length);
          retries.progressed();
          const nowMs = this.#needs.context.world.clock.monotonicMs();
          if (heardMs > 0 && tokens.length > 0) choice.observe(replica, (nowMs - heardMs) / tokens.length);
          heardMs = nowMs;
          const told = logprobs.map((one, index) => ({ token: tokens[index] as number, ...one }));
          yield {
            tokens,
            replica,
            ...(told.length > 0 ? { logprobs: told } : {}),
            ...(finish === "stop" || finish === "length" ? { finish } : {}),
          };
          if (finish) return;
        }
        if (!signal.aborted) fail("unavailable", `the answer of model ${model.name} broke off`);
      } catch (error) {
        if (signal.aborted) return;
        if (hasCode(error, "resource_exhausted") && sent.length === 0 && full.size + 1 < model.replicas.length) {
          replica = this.#replicas.choose(model, prompt, full.add(replica));
          continue;
        }
        const next =
          error instanceof ReplicaGone &&
          sent.length === 0 &&
          (await this.#successor(model, prompt, gone.add(replica)));
        if (next) {
          replica = next;
          continue;
        }
        failure = error;
      } finally {
        signal.removeEventListener("abort", abort);
        // A reader who stops early must not leave the PNode computing for nobody.
        stop.abort();
        release();
        if (failure === undefined) checked.end();
      }
      if (signal.aborted) return;
      await retries.again(failure);
    }
  }

  /** A stream that hangs leaves nobody waiting: the machine of the head gives signs while it has nothing to say. */
  #heard<T>({ name }: ModelRecord, pieces: AsyncIterable<T>): AsyncGenerator<T> {
    return whileHeard(pieces, `the machine that answers for model ${name}`, silentMs, this.#needs.context.world.timers);
  }

  /** Where people's questions go. Fails with `unavailable` while it is placed, or has to prove itself. */
  async #place(model: ModelRecord, replica: ReplicaId): Promise<string> {
    const address = await this.#replicas.head(model, replica);
    const hindrance = await this.#needs.canaries.hindrance(replica);
    if (hindrance) fail("unavailable", `model ${model.name} does not answer yet: ${hindrance}`);
    return address;
  }

  /** Of a model that was served again as it is: one that has come since. */
  async #successor(
    model: ModelRecord,
    prompt: readonly number[],
    gone: ReadonlySet<ReplicaId>,
  ): Promise<ReplicaId | undefined> {
    const now = await findModel(this.#needs.context, model.name);
    const replicas = now.replicas.filter((id) => !gone.has(id));
    if (replicas.length === 0 || now.definition !== model.definition || now.tokenizer !== model.tokenizer)
      return undefined;
    return this.#replicas.choose({ ...now, replicas }, prompt);
  }

  async embed(request: EmbedRequest, signal: AbortSignal): Promise<Embedding> {
    const { model, adapter } = await findSpeaker(this.#needs.context, request.model);
    if (model.context === 0) fail("failed_precondition", `model ${model.name} takes numbers, not text`);
    const prompt = await this.#prompts.idsOf(model, request);
    const { values } = await this.#once(model, prompt.length, signal, (address, replica, options) => {
      const asked = { session: replica, prompt, pooling: model.pooling ?? "mean", adapter };
      return this.#needs.network.call(address, ServingService.method.embedTokens, asked, options);
    });
    return { vector: values, promptTokens: prompt.length };
  }

  forward(model: ModelRecord, inputs: Forward["inputs"], signal: AbortSignal): Promise<ForwardTensorsResponse> {
    return this.#once(model, 0, signal, (address, replica, options) =>
      this.#needs.network.call(address, ServingService.method.forwardTensors, { session: replica, inputs }, options),
    );
  }

  /** One question, one answer; asked again where PNodes come and go. */
  async #once<T>(
    model: ModelRecord,
    promptTokens: number,
    signal: AbortSignal,
    ask: (address: string, replica: ReplicaId, options: { timeoutMs: number; signal: AbortSignal }) => Promise<T>,
  ): Promise<T> {
    const asked = this.loads.begin(model.name, promptTokens);
    let outcome: Outcome = "failed";
    try {
      const awake = await this.#needs.wake(model);
      const replica = this.#replicas.choose(awake);
      const release = this.#replicas.occupy(replica);
      try {
        const answer = await retry(this.#patience(signal), async () =>
          ask(await this.#place(model, replica), replica, { timeoutMs: patienceMs, signal }),
        );
        outcome = "computed";
        return answer;
      } finally {
        release();
      }
    } finally {
      asked.ended(outcome);
    }
  }

  #patience(signal: AbortSignal): RetryOptions {
    const { world } = this.#needs.context;
    return { world, minMs: retryMinMs, maxMs: retryMaxMs, patienceMs, signal };
  }
}

/** What is remembered of an answer until it is over, in case that it is checked. */
class CheckedAnswer {
  readonly #answers: AnswerCare;
  readonly #about: Pick<GivenAnswer, "model" | "asked">;
  readonly #answer: number[] = [];
  #replica: ReplicaId | undefined;
  #ring: GivenAnswer["ring"];
  #request = "";
  #finish = "";
  /** Of those who took part, how many. */
  #heads = 0;

  constructor(answers: AnswerCare, model: string, asked: Tokens) {
    this.#answers = answers;
    this.#about = { model, asked };
  }

  async begin(replica: ReplicaId): Promise<void> {
    this.#replica = replica;
    if (this.#answer.length === 0) this.#ring = await this.#answers.begin(replica);
  }

  heard(tokens: readonly number[], request: string, finish: string): void {
    if (request !== "") {
      this.#heads++;
      this.#request = request;
    }
    this.#answer.push(...tokens);
    this.#finish ||= finish;
  }

  /** It goes on no more, whoever ended it. */
  end(): void {
    if (this.#replica === undefined) return;
    const request = this.#heads === 1 ? this.#request : "";
    const told = { replica: this.#replica, answer: this.#answer, finish: this.#finish, request, ring: this.#ring };
    this.#answers.given({ ...this.#about, ...told });
    this.#replica = undefined;
  }
}

function wantedOf(
  { maxTokens, sampling: { seed, ...sampling }, topLogprobs }: TextRequest,
  ids: ArrayLike<number>,
  endTokens: Iterable<number>,
) {
  return {
    prompt: Array.from(ids),
    maxTokens,
    sampling: { ...sampling, seed: BigInt(seed) },
    endTokens: [...endTokens],
    ...(topLogprobs === undefined ? {} : { topLogprobs }),
  };
}

function promptText({ model, prompt }: TextRequest, table: TokenTable | undefined, ids: ArrayLike<number>): string {
  if (typeof prompt === "string") return prompt;
  if (!table) fail("failed_precondition", `model ${model} has no tokenizer: its prompt cannot be repeated as text`);
  return new TextDecoder().decode(decodeTokenBytes(table, ids));
}

function checkLimits({ maxTokens, stop }: TextRequest): void {
  if (maxTokens > maxTokensMax)
    fail("invalid_argument", `max_tokens is ${maxTokens}, at most ${maxTokensMax} are allowed`);
  if (stop.length > stopWordsMax || stop.some((word) => word.length > stopWordLengthMax))
    fail("invalid_argument", `at most ${stopWordsMax} stop words of ${stopWordLengthMax} characters are taken`);
}
