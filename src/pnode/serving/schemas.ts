// What answers must fit, beside the head of a served model: its vocabulary is fetched when the first answer with a schema is
// asked for, schemas are compiled in another thread, and both are remembered for the answers after it.

import { type Aside, runAside } from "../../core/aside.ts";
import { Recent } from "../../core/caches/recent.ts";
import { fail } from "../../core/errors.ts";
import { sha256 } from "../../core/hash.ts";
import { parseSha256, type ReplicaId } from "../../core/ids.ts";
import type { Constraint } from "../../models/choosing.ts";
import { GrammarConstraints } from "../../models/grammar/constraint.ts";
import { schemaBytesMax } from "../../models/grammar/schema.ts";
import { type OrderedVocabulary, writableBytes } from "../../models/grammar/vocabulary.ts";
import { compilingSchema, orderingVocabulary } from "../../models/grammar/works.ts";
import { contextOf } from "../../network/graphs/generation.ts";
import type { GenerateTokensRequest } from "../../protocol/gen/dcnr/v1/serving_pb.ts";
import type { BlobClient } from "../blob-client.ts";
import type { ServingContext } from "./serving-context.ts";

/** A vocabulary takes some megabytes, a schema with what was learnt of it as well. */
const vocabulariesKept = 2;
const schemasKept = 16;

export interface SchemaNeeds {
  readonly blobs: Pick<BlobClient, "fetchVocabulary">;
  readonly aside: Aside;
  readonly signal: AbortSignal;
}

export interface SchemaWish {
  readonly replica: ReplicaId;
  /** JSON. */
  readonly schema: string;
  /** Hash of the model's tokenizer.json. */
  readonly tokenizer: string;
  /** Tokens that the model knows. */
  readonly vocabulary: number;
  /** Tokens that the answer may have. */
  readonly room: number;
}

export class Schemas {
  readonly #needs: SchemaNeeds;
  readonly #vocabularies = new Recent<string, Promise<OrderedVocabulary>>(vocabulariesKept);
  readonly #schemas = new Recent<string, Promise<GrammarConstraints>>(schemasKept);

  constructor(needs: SchemaNeeds) {
    this.#needs = needs;
  }

  /** What an answer has to fit; undefined if it may be anything. */
  async constraintOf(
    { schema, tokenizer, maxTokens, prompt }: GenerateTokensRequest,
    { replica, plan }: ServingContext,
  ): Promise<Constraint | undefined> {
    if (schema === "") return undefined;
    const room = Math.min(maxTokens, contextOf(plan) - prompt.length);
    return this.open({ replica, schema, tokenizer, vocabulary: plan.inputs?.below ?? 0, room });
  }

  async open(wish: SchemaWish): Promise<Constraint> {
    if (wish.schema.length > schemaBytesMax)
      fail("resource_exhausted", `the schema has more than ${schemaBytesMax} characters`);
    const key = `${wish.tokenizer} ${wish.vocabulary} ${sha256(wish.schema)}`;
    const constraints = await remembered(this.#schemas, key, () => this.#compile(wish));
    const { tokensLeast } = constraints;
    if (tokensLeast === Number.POSITIVE_INFINITY)
      fail("failed_precondition", "the model's vocabulary lacks characters that an answer to the schema needs");
    if (tokensLeast > wish.room)
      fail(
        "invalid_argument",
        `the answer may have ${wish.room} tokens, one that fits the schema may need ${tokensLeast}: allow more`,
      );
    return constraints.open();
  }

  async #compile({ replica, schema, tokenizer, vocabulary: size }: SchemaWish): Promise<GrammarConstraints> {
    const { aside, blobs, signal } = this.#needs;
    const vocabulary = await remembered(this.#vocabularies, `${tokenizer} ${size}`, async () => {
      const content = await blobs.fetchVocabulary(replica, parseSha256(tokenizer, "the tokenizer"), signal);
      return runAside(aside, orderingVocabulary, { tokenizer: content, size });
    });
    const writable = [...writableBytes(vocabulary)];
    const { grammar, distances } = await runAside(aside, compilingSchema, { schema, writable });
    return new GrammarConstraints(grammar, distances, vocabulary);
  }
}

/** Failures are not remembered. */
function remembered<Value>(
  known: Recent<string, Promise<Value>>,
  key: string,
  make: () => Promise<Value>,
): Promise<Value> {
  const before = known.get(key);
  if (before) return before;
  const making = make();
  known.set(key, making);
  making.catch(() => known.delete(key));
  return making;
}
