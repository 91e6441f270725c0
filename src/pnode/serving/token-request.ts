// What a gateway asks of a conductor, checked: one bad request must not disturb the others in its pass.

import { fail } from "../../core/errors.ts";
import { type ChosenLogprobs, topLogprobsMax } from "../../models/choosing.ts";
import { checkSampling } from "../../models/sampling.ts";
import type { GenerateTokensRequest } from "../../protocol/gen/dcnr/v1/serving_pb.ts";
import type { TokenRequest } from "./conductor-options.ts";

/** Ids that end an answer: tokenizers have a handful. */
const endTokensMax = 64;

/** `vocabulary` is 0 where it is not known; `adapters`: so many the model holds. */
export function tokenRequest(request: GenerateTokensRequest, vocabulary: number, adapters: number): TokenRequest {
  const { prompt, sent, maxTokens, endTokens, adapter } = request;
  checkAdapter(adapter, adapters);
  checkTokens([...prompt, ...sent], vocabulary);
  if (endTokens.length > endTokensMax) fail("invalid_argument", `at most ${endTokensMax} tokens may end an answer`);
  if (maxTokens < 1) fail("invalid_argument", "max_tokens must be at least 1");
  const { temperature = 0, topK = 0, topP = 0, repetitionPenalty = 0, seed = 0n } = request.sampling ?? {};
  const { frequencyPenalty = 0, presencePenalty = 0, logitBias = {} } = request.sampling ?? {};
  const sampling = {
    temperature,
    topK,
    topP: topP || 1,
    repetitionPenalty: repetitionPenalty || 1,
    frequencyPenalty,
    presencePenalty,
    logitBias,
    seed: Number(seed),
  };
  checkSampling(sampling);
  const biased = Object.keys(logitBias).find((id) => vocabulary > 0 && Number(id) >= vocabulary);
  if (biased !== undefined)
    fail("invalid_argument", `logit_bias: token ${biased} is outside the model's vocabulary of ${vocabulary}`);
  const { topLogprobs } = request;
  if (topLogprobs !== undefined && topLogprobs > topLogprobsMax)
    fail("invalid_argument", `top_logprobs is ${topLogprobs}, at most ${topLogprobsMax} are told`);
  return { prompt, sent, maxTokens, sampling, topLogprobs, endTokens: new Set(endTokens), adapter };
}

export function checkAdapter(adapter: number, adapters: number): void {
  if (adapter > adapters) fail("invalid_argument", `adapter ${adapter} was asked for, the model holds ${adapters}`);
}

export function checkTokens(ids: readonly number[], vocabulary: number): void {
  const bad = ids.find((id) => vocabulary > 0 && id >= vocabulary);
  if (bad !== undefined) fail("invalid_argument", `token ${bad} is outside the model's vocabulary of ${vocabulary}`);
}

export function toProtoLogprobs({ logprob, top }: ChosenLogprobs) {
  return { logprob, top: top.map((one) => ({ ...one })) };
}
