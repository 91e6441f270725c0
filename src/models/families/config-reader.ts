// Reads config.json key by key and remembers which were read: what nobody read and nobody calls harmless might change
// what the model computes, so it is refused by name.

import { fail } from "../../core/errors.ts";
import { didYouMean } from "../../network/suggest.ts";

export type ConfigJson = Readonly<Record<string, unknown>>;

/** More layers, heads or entries of a vocabulary than any model has. */
export const sizeMax = 1 << 24;

export class ConfigReader {
  readonly #json: ConfigJson;
  readonly #where: string;
  readonly #read = new Set<string>();
  readonly #parts: ConfigReader[] = [];

  constructor(json: ConfigJson, where = "config.json") {
    this.#json = json;
    this.#where = where;
  }

  /** Undefined where the key is absent or null. */
  value(key: string): unknown {
    this.#read.add(key);
    return Object.hasOwn(this.#json, key) ? (this.#json[key] ?? undefined) : undefined;
  }

  /** Null counts. */
  has(key: string): boolean {
    return Object.hasOwn(this.#json, key);
  }

  integer(key: string, otherwise?: number): number {
    const value = this.value(key) ?? otherwise;
    if (typeof value !== "number" || !Number.isSafeInteger(value) || value < 1 || value > sizeMax)
      this.refuse(key, value, `a whole number from 1 to ${sizeMax}`);
    return value;
  }

  number(key: string, least: number, most: number, otherwise?: number): number {
    const value = this.value(key) ?? otherwise;
    if (typeof value !== "number" || !(value >= least && value <= most))
      this.refuse(key, value, `a number from ${least} to ${most}`);
    return value;
  }

  flag(key: string, otherwise: boolean): boolean {
    const value = this.value(key) ?? otherwise;
    return typeof value === "boolean" ? value : this.refuse(key, value, "true or false");
  }

  /** A list of so many entries that `check` accepts; undefined where there is none. */
  list<T>(key: string, length: number, check: (item: unknown) => item is T, expected: string): T[] | undefined {
    const value = this.value(key);
    if (value === undefined) return undefined;
    if (!Array.isArray(value) || value.length !== length || !value.every(check))
      this.refuse(key, value, `a list of ${length} ${expected}`);
    return value as T[];
  }

  /** An object inside; undefined where there is none. */
  part(key: string): ConfigReader | undefined {
    const value = this.value(key);
    if (value === undefined) return undefined;
    if (typeof value !== "object" || Array.isArray(value)) this.refuse(key, value, "an object");
    const part = new ConfigReader(value as ConfigJson, `${key} of ${this.#where}`);
    this.#parts.push(part);
    return part;
  }

  refuse(key: string, value: unknown, expected: string): never {
    const shown = (JSON.stringify(value) ?? "nothing").slice(0, 120);
    fail("unimplemented", `${this.#where} has ${key} = ${shown}: only ${expected} is supported`);
  }

  /** Fails on the first key that was not read and is not known to be harmless. */
  refuseUnread(harmless: ReadonlySet<string>): void {
    for (const key of Object.keys(this.#json))
      if (!this.#read.has(key) && !harmless.has(key))
        fail(
          "unimplemented",
          `${this.#where} has the key "${key.slice(0, 80)}", which this family is not known to have: it might change what the model computes${didYouMean(key, [...this.#read])}`,
        );
    for (const part of this.#parts) part.refuseUnread(new Set());
  }
}

/** Keys that decide nothing about the forward pass of any family: names, training, generation defaults, old defaults. */
export const harmlessKeys: readonly string[] = [
  ..."architectures model_type torch_dtype dtype transformers_version _name_or_path use_cache initializer_range".split(
    " ",
  ),
  ..."bos_token_id eos_token_id pad_token_id sep_token_id unk_token_id decoder_start_token_id forced_bos_token_id".split(
    " ",
  ),
  ..."forced_eos_token_id attention_dropout hidden_dropout dropout attn_pdrop embd_pdrop resid_pdrop".split(" "),
  ..."hidden_dropout_prob attention_probs_dropout_prob classifier_dropout activation_dropout layerdrop".split(" "),
  ..."id2label label2id num_labels problem_type finetuning_task task_specific_params tokenizer_class prefix".split(" "),
  ..."return_dict output_hidden_states output_attentions torchscript pruned_heads is_decoder".split(" "),
  ..."chunk_size_feed_forward cross_attention_hidden_size tie_encoder_decoder tf_legacy_loss use_bfloat16".split(" "),
  ..."max_length min_length do_sample early_stopping num_beams num_beam_groups diversity_penalty temperature".split(
    " ",
  ),
  ..."top_k top_p typical_p repetition_penalty length_penalty no_repeat_ngram_size bad_words_ids".split(" "),
  ..."encoder_no_repeat_ngram_size num_return_sequences output_scores return_dict_in_generate".split(" "),
  ..."remove_invalid_values exponential_decay_length_penalty suppress_tokens begin_suppress_tokens".split(" "),
  ..."gradient_checkpointing keys_to_ignore_at_inference _attn_implementation_autoset attn_implementation".split(" "),
  ..."cache_implementation unsloth_version unsloth_fixed".split(" "),
];
