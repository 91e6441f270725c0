// Calls about models that are served: what answers, and what is asked of it.

import type { MessageInitShape } from "@bufbuild/protobuf";
import {
  type ForwardRequestSchema,
  InferenceService,
  type Model,
  type Sampling,
} from "../../protocol/gen/dcnr/v1/inference_pb.ts";
import type { Line } from "./line.ts";

export interface ServeOptions {
  readonly name?: string;
  readonly replicas?: number;
  /** With a most above 0 replicas come and go by load. */
  readonly leastReplicas?: number;
  readonly mostReplicas?: number;
  readonly spread?: number;
  readonly provisional?: boolean;
  /** "8bit" or "4bit" keeps weights in so many bits. */
  readonly weights?: string;
  /** A session or model, smaller and of the same vocabulary, that guesses what this one says; answers are the same. */
  readonly draft?: string;
  readonly draftWeights?: string;
  /** "on" or "off": whether other machines repeat a share of the answers. */
  readonly audit?: string;
}

export type ForwardInit = Omit<MessageInitShape<typeof ForwardRequestSchema>, "$typeName" | "model">;

export interface GenerateOptions
  extends Partial<
    Pick<
      Sampling,
      "temperature" | "topK" | "topP" | "repetitionPenalty" | "frequencyPenalty" | "presencePenalty" | "logitBias"
    >
  > {
  readonly maxTokens?: number;
  readonly stop?: readonly string[];
  readonly seed?: number;
  readonly signal?: AbortSignal;
}

export interface ChatTurn {
  readonly role: "system" | "user" | "assistant";
  readonly content: string;
}

/** Text to go on with, token ids, or a conversation, oldest turn first. */
export type GeneratePrompt = string | readonly number[] | readonly ChatTurn[];

export interface GeneratedPiece {
  readonly text: string;
  readonly tokens: number[];
  /** Empty until the last piece: "stop" or "length". */
  readonly finish: string;
  readonly promptTokens: number;
  readonly generatedTokens: number;
}

export const modelCalls = (line: Line) => ({
  serve: async (source: string, options: ServeOptions = {}): Promise<Model> => {
    const method = InferenceService.method.serveModel;
    const request = { source, name: "", replicas: 1, ...options };
    return (await line.call(method, request)).model!;
  },
  register: async (model: {
    name: string;
    definition: string;
    states: Record<string, string>;
    tokenizer?: string;
    chat?: string;
    pooling?: string;
    adapters?: string[];
  }) => {
    const method = InferenceService.method.registerModel;
    return (await line.call(method, model)).model!;
  },
  list: async (): Promise<Model[]> => (await line.call(InferenceService.method.listModels, {})).models,
  stop: (name: string, options: { forget?: boolean } = {}) =>
    line.call(InferenceService.method.stopModel, { name, forget: options.forget ?? false }),
  /** Definition and state blobs of a session or model, with addresses to download them from. */
  describe: (source: string, provisional = false) =>
    line.call(InferenceService.method.describeState, { source, provisional }),
  forward: (model: string, request: ForwardInit) =>
    line.call(InferenceService.method.forward, { ...request, model }, { timeoutMs: 60_000 }),
});

/** An answer as it is generated: pieces of text, the last one with a reason why it ended. */
export function generate(
  line: Line,
  model: string,
  prompt: GeneratePrompt,
  options: GenerateOptions = {},
): AsyncIterable<GeneratedPiece> {
  const { maxTokens = 128, stop = [], signal, ...sampling } = options;
  const { seed = 0, ...rest } = sampling;
  const request = {
    model,
    ...promptFields(prompt),
    maxTokens,
    stop: [...stop],
    sampling: { ...rest, seed: BigInt(seed) },
  };
  return line.watch(InferenceService.method.generate, request, { signal });
}

/** One vector of length 1 for a text or token ids. */
export function embed(line: Line, model: string, text: string | readonly number[], signal: AbortSignal | undefined) {
  const request = typeof text === "string" ? { model, text } : { model, tokens: [...text] };
  return line.call(InferenceService.method.embed, request, { timeoutMs: 60_000, ...(signal && { signal }) });
}

function promptFields(prompt: GeneratePrompt) {
  if (typeof prompt === "string") return { prompt };
  const isTurn = (item: number | ChatTurn): item is ChatTurn => typeof item === "object";
  const messages = prompt.filter(isTurn);
  return messages.length > 0 ? { messages } : { tokens: prompt as number[] };
}
