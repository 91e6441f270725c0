// What orchestrators and other PNodes ask of models whose head is here: text, vectors, forward passes, and what is known of answers.

import { fail } from "../../core/errors.ts";
import { withSigns } from "../../core/signs.ts";
import type { Timers } from "../../core/world.ts";
import {
  type EmbedTokensRequest,
  type ForwardTensorsRequest,
  type GenerateTokensRequest,
  ServingService,
  type TellRowsRequest,
} from "../../protocol/gen/dcnr/v1/serving_pb.ts";
import { type ServedService, service } from "../../protocol/network.ts";
import type { WireTensor } from "../../vnode/wire.ts";
import type { AnswerCheck } from "../auditing/answer-check.ts";
import type { TokenAnswer } from "./answer-queue.ts";
import type { AnswerRows, Passage } from "./answer-rows.ts";
import type { Conductor } from "./conductor.ts";
import type { Forwards } from "./forwards.ts";
import type { Pass } from "./pass.ts";
import { parsePooling } from "./pooling.ts";
import type { Schemas } from "./schemas.ts";
import type { ServingContext } from "./serving-context.ts";
import type { ServingVNode } from "./serving-vnode.ts";
import { checkAdapter, checkTokens, tokenRequest, toProtoLogprobs } from "./token-request.ts";

/** Whoever waits for an answer hears so often that it is still thought about. */
const signsMs = 5_000;

/** A replica whose head is here and has its weights. */
export interface HeadHere {
  readonly context: ServingContext;
  readonly head: ServingVNode;
  readonly forwards: Forwards;
  /** Fails once the head has moved. */
  readonly conductor: () => Conductor;
  /** To every VNode that takes the network's inputs. */
  readonly feed: (pass: Pass, tensor: WireTensor) => void;
}

export interface Answering {
  readonly pnode: string;
  readonly timers: Timers;
  readonly schemas: Schemas;
  readonly checks: AnswerCheck;
  /** Fails where it is not here, or still loading. */
  readonly head: (session: string) => Promise<HeadHere>;
  /** What is remembered here of a replica's answers. */
  readonly rows: (session: string) => AnswerRows | undefined;
}

export function servingService(answering: Answering): ServedService {
  return service(ServingService, {
    generateTokens: (request, { signal }) => generate(answering, request, signal),
    embedTokens: (request, { signal }) => embed(answering, request, signal),
    forwardTensors: (request, { signal }) => forward(answering, request, signal),
    tellRows: async (request) => ({ told: told(answering, request) }),
    checkAnswer: async (request, { signal }) => {
      const { tokens, ends, roots, sample } = await answering.checks.check(request, signal);
      return { tokens: [...tokens], ends, roots, sample: [...sample] };
    },
  });
}

async function* generate({ head, schemas, timers }: Answering, request: GenerateTokensRequest, signal: AbortSignal) {
  const { context, conductor } = await head(request.session);
  const vocabulary = context.plan.inputs?.below ?? 0;
  const asked = tokenRequest(request, vocabulary, context.adapters);
  const wanted = { ...asked, constraint: await schemas.constraintOf(request, context) };
  const pieces = withSigns<TokenAnswer>(conductor().generate(wanted, signal), { tokens: [] }, signsMs, timers);
  for await (const { tokens, finish, logprobs, request: name } of pieces) {
    const told = (logprobs ?? []).map(toProtoLogprobs);
    yield { tokens: [...tokens], finish: finish ?? "", logprobs: told, request: name ?? "" };
  }
}

async function embed(answering: Answering, request: EmbedTokensRequest, signal: AbortSignal) {
  const { session, prompt, pooling, adapter } = request;
  const { context, head, conductor } = await answering.head(session);
  checkTokens(prompt, context.plan.inputs?.below ?? 0);
  checkAdapter(adapter, context.adapters);
  if (!head.givesHidden)
    fail(
      "failed_precondition",
      `network ${context.plan.name} has no hidden states: its logits do not come from a linear layer`,
    );
  const wanted = { prompt, pooling: parsePooling(pooling), adapter };
  return { values: [...(await conductor().embed(wanted, signal))] };
}

async function forward({ head: headOf, pnode }: Answering, request: ForwardTensorsRequest, signal: AbortSignal) {
  const { context, head, forwards, feed } = await headOf(request.session);
  const input = request.inputs["inputs"] ?? Object.values(request.inputs)[0];
  if (!input) fail("invalid_argument", "the request has no input tensor");
  const send = (id: number, tensor: WireTensor) => {
    const { epoch } = head.assignment;
    feed({ id, conductor: pnode, epoch, attempt: 0, rows: [], plain: true, dropped: [] }, tensor);
  };
  return forwards.run(context, input, send, signal);
}

function told({ rows: rowsOf }: Answering, { session, request, rows, first }: TellRowsRequest) {
  const from = (passage: Passage) => (passage === "sent logits" ? first : 0);
  return Array.from(rowsOf(session)?.roots(request, from, rows) ?? [], ([passage, root]) => ({
    ...{ sent: passage.startsWith("sent "), edge: passage.slice(passage.indexOf(" ") + 1), root },
  }));
}
