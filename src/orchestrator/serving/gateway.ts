// From text to an answer: tokens go to the PNode beside the model's head and come back as they are chosen. If that
// PNode is lost, the next one repeats what was sent and goes on; the reader notices a pause at most.

import { DcnrError, fail, hasCode } from "../../core/errors.ts";
import { parseSha256, type SessionId } from "../../core/ids.ts";
import { sleep } from "../../core/world.ts";
import { loadTokenizer } from "../../data/bpe/json.ts";
import type { Tokenizer } from "../../data/bpe/tokenizer.ts";
import { generationHead } from "../../network/generation.ts";
import { ServingService } from "../../protocol/gen/dcnr/v1/serving_pb.ts";
import type { Network } from "../../protocol/network.ts";
import type { Parts } from "../parts.ts";
import { key, type SessionRecord } from "../records.ts";
import { answerText, type TokenBatch } from "./answer.ts";
import { findModel, listModels, type ModelRecord } from "./models.ts";
import type { ServedModel, TextGenerator, TextPiece, TextRequest } from "./text.ts";

/** How long an answer waits for a lost PNode to be replaced, or a model to be placed. */
const patienceMs = 60_000;
const retryMs = 150;
const endWords = ["<|endoftext|>", "</s>", "<|im_end|>", "<|eot_id|>", "<|end_of_text|>"];
const tokenizersKept = 8;

export class Gateway implements TextGenerator {
  readonly #parts: Parts;
  readonly #network: Network;
  readonly #tokenizers = new Map<string, Promise<Tokenizer>>();
  readonly #inFlight = new Map<SessionId, number>();

  constructor(parts: Parts, network: Network) {
    this.#parts = parts;
    this.#network = network;
  }

  async models(): Promise<ServedModel[]> {
    const served = (await listModels(this.#parts)).filter((model) => model.sessions.length > 0 && model.context > 0);
    return Promise.all(
      served.map(async ({ name, createdWallMs, context, tokenizer }) => {
        const known = tokenizer ? await this.#tokenizer(tokenizer) : undefined;
        const chatStyle = known?.idOf("<|im_start|>") === undefined ? "plain" : "chatml";
        return { name, createdWallMs, context, chatStyle };
      }),
    );
  }

  async *generate(request: TextRequest, signal: AbortSignal): AsyncGenerator<TextPiece> {
    const model = await findModel(this.#parts, request.model);
    if (model.sessions.length === 0)
      fail("failed_precondition", `model ${model.name} is not served: dcnr serve ${model.name}`);
    if (model.context === 0) fail("failed_precondition", `model ${model.name} does not generate text`);
    const tokenizer = model.tokenizer ? await this.#tokenizer(model.tokenizer) : undefined;
    const prompt = this.#encode(request, model, tokenizer);
    const tokens = this.#tokens(model, request, prompt, tokenizer, signal);
    if (tokenizer) yield* answerText(tokens, tokenizer, request.stop, prompt.length);
    else yield* bareTokens(tokens, prompt.length);
  }

  #encode({ prompt }: TextRequest, model: ModelRecord, tokenizer: Tokenizer | undefined): number[] {
    if (typeof prompt === "string" && !tokenizer)
      fail("failed_precondition", `model ${model.name} has no tokenizer: send token ids instead of text`);
    const ids =
      typeof prompt === "string" ? [...(tokenizer as Tokenizer).encode(prompt, { addSpecial: true })] : [...prompt];
    const bad = ids.find((id) => id < 0 || (model.vocabulary > 0 && id >= model.vocabulary));
    if (bad !== undefined)
      fail("invalid_argument", `token ${bad} is outside the model's vocabulary of ${model.vocabulary}`);
    if (ids.length === 0) fail("invalid_argument", "the prompt is empty");
    if (ids.length >= model.context)
      fail(
        "invalid_argument",
        `the prompt has ${ids.length} tokens, model ${model.name} takes at most ${model.context - 1}: shorten it`,
      );
    return ids;
  }

  async *#tokens(
    model: ModelRecord,
    request: TextRequest,
    prompt: readonly number[],
    tokenizer: Tokenizer | undefined,
    signal: AbortSignal,
  ): AsyncGenerator<TokenBatch> {
    const { world } = this.#parts.context;
    const sent: number[] = [];
    const session = this.#leastLoaded(model.sessions);
    const id = Buffer.from(world.chance.bytes(9)).toString("base64url");
    const endTokens = endWords.flatMap((word) => tokenizer?.idOf(word) ?? []);
    const { seed, ...sampling } = request.sampling;
    this.#count(session, 1);
    try {
      for (let deadlineMs = world.clock.monotonicMs() + patienceMs; ; ) {
        const address = await this.#headAddress(session);
        try {
          if (address === undefined) throw new DcnrError("unavailable", `model ${model.name} is being placed`);
          const call = this.#network.watch(
            address,
            ServingService.method.generateTokens,
            {
              session,
              request: id,
              prompt: [...prompt],
              sent,
              maxTokens: request.maxTokens,
              sampling: { ...sampling, seed: BigInt(seed) },
              endTokens,
            },
            { signal },
          );
          for await (const { tokens, finish } of call) {
            sent.push(...tokens);
            deadlineMs = world.clock.monotonicMs() + patienceMs;
            yield { tokens, ...(finish === "stop" || finish === "length" ? { finish } : {}) };
            if (finish) return;
          }
          if (signal.aborted) return;
          throw new DcnrError("unavailable", `the answer of model ${model.name} broke off`);
        } catch (error) {
          if (!hasCode(error, "unavailable") && !hasCode(error, "cancelled") && !hasCode(error, "internal"))
            throw error;
          if (signal.aborted) return;
          if (world.clock.monotonicMs() > deadlineMs) throw error;
          await sleep(world.timers, retryMs, signal);
        }
      }
    } finally {
      this.#count(session, -1);
    }
  }

  /** Of two drawn at random the one with less to do: nearly as good as knowing all loads, and never a stampede. */
  #leastLoaded(sessions: readonly SessionId[]): SessionId {
    const { chance } = this.#parts.context.world;
    const draw = () => sessions[Math.floor(chance.uniform() * sessions.length)] as SessionId;
    const [a, b] = [draw(), draw()];
    return (this.#inFlight.get(a) ?? 0) <= (this.#inFlight.get(b) ?? 0) ? a : b;
  }

  #count(session: SessionId, change: number): void {
    const count = (this.#inFlight.get(session) ?? 0) + change;
    if (count > 0) this.#inFlight.set(session, count);
    else this.#inFlight.delete(session);
  }

  async #headAddress(id: SessionId): Promise<string | undefined> {
    const session = this.#parts.context.mirror.get<SessionRecord>(key.session(id));
    if (!session) return undefined;
    const plan = await this.#parts.compiled.plan(session.identity.definition);
    const { vnode } = generationHead(plan);
    return this.#parts.assignments.locations(session, new Set([vnode]))[0]?.address;
  }

  async forward(model: ModelRecord, inputs: Parameters<Network["call"]>[2]): Promise<unknown> {
    const session =
      model.sessions[0] ?? fail("failed_precondition", `model ${model.name} is not served: dcnr serve ${model.name}`);
    const address =
      (await this.#headAddress(session)) ?? fail("unavailable", `model ${model.name} is being placed: try again`);
    const method = ServingService.method.forwardTensors;
    return this.#network.call(address, method, { session, inputs } as never, { timeoutMs: patienceMs });
  }

  #tokenizer(hash: string): Promise<Tokenizer> {
    const known = this.#tokenizers.get(hash);
    if (known) return known;
    const loading = this.#parts.context.blobs
      .get(parseSha256(hash, "the tokenizer"))
      .then((bytes) => loadTokenizer(new TextDecoder().decode(bytes)));
    this.#tokenizers.set(hash, loading);
    loading.catch(() => this.#tokenizers.delete(hash));
    if (this.#tokenizers.size > tokenizersKept) this.#tokenizers.delete(this.#tokenizers.keys().next().value as string);
    return loading;
  }
}

async function* bareTokens(batches: AsyncIterable<TokenBatch>, promptTokens: number): AsyncGenerator<TextPiece> {
  let generatedTokens = 0;
  for await (const { tokens, finish } of batches) {
    generatedTokens += tokens.length;
    yield { text: "", tokens, promptTokens, generatedTokens, ...(finish ? { finish } : {}) };
  }
}
