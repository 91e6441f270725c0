// How serving does, by model: what is asked at this orchestrator, how long readers wait, how fast answers come. Each orchestrator
// counts what comes in at itself, so these are summed.

import type { MetricRegistry } from "../../monitoring/registry.ts";
import type { ModelLoads } from "../../orchestrator/serving/loads.ts";

/** From what feels like at once to what nobody waits for. */
const firstBounds = [0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60];
const tokenBounds = [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5];

export function countAnswers(registry: MetricRegistry, asked: ModelLoads): void {
  const requests = registry.count(
    "dcnr_model_requests_total",
    "Requests to served models that are over, by how they ended.",
  );
  const prompts = registry.count("dcnr_model_prompt_tokens_total", "Tokens of prompts.");
  const tokens = registry.count("dcnr_model_tokens_total", "Tokens of answers.");
  const first = registry.histogram(
    "dcnr_model_first_token_seconds",
    "From a request to the first token of its answer.",
    firstBounds,
  );
  const each = registry.histogram(
    "dcnr_model_token_seconds",
    "For each token after the first, as an average of one answer.",
    tokenBounds,
  );
  registry.gauge("dcnr_model_requests_active", "Requests under way.", () =>
    Object.entries(asked.models()).map(([model, { busy }]) => ({ labels: { model }, value: busy })),
  );
  registry.gauge("dcnr_model_requests_waiting", "Requests that wait for their first token.", () =>
    [...asked.waiting()].map(([model, value]) => ({ labels: { model }, value })),
  );
  asked.watch(({ model, outcome, promptTokens, tokens: count, firstMs, totalMs }) => {
    requests.add({ model, outcome });
    prompts.add({ model }, promptTokens);
    tokens.add({ model }, count);
    if (firstMs === undefined) return;
    first.observe(firstMs / 1000, { model });
    if (count > 1) each.observe((totalMs - firstMs) / (count - 1) / 1000, { model });
  });
}
