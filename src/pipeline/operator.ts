// What a step of a pipeline is: how its settings are read, what it must know of the world before anything runs, and how it makes
// its output. An operator is one file in operators/ and one line in the table of definition.ts.

import { fail } from "../core/errors.ts";
import type { Sha256 } from "../core/ids.ts";
import type { Tensor } from "../core/tensor.ts";
import type { SourceAccess } from "../data/imports/source.ts";
import type { Manifest } from "../data/manifest.ts";
import type { FetchBlob } from "../data/shard-cache.ts";
import type { Kit } from "./kit.ts";
import type { Format, Output } from "./records.ts";

/** Plain data, as it goes into a step's key. */
export type Settings = Readonly<Record<string, unknown>>;
export type Facts = Readonly<Record<string, unknown>>;

/** What a model that answers is known by. */
export interface ServedFacts {
  /** Changes with its weights and its definition. */
  readonly identity: string;
  readonly replicas: number;
  /** Tokens that it reads at most; 0: it takes numbers. */
  readonly context: number;
  /** The hash of its tokenizer.json. */
  readonly tokenizer?: Sha256;
}

export interface Question {
  readonly prompt: string;
  readonly maxTokens: number;
  readonly temperature: number;
  readonly seed: number;
  readonly stop: readonly string[];
}

/** The models of a network; requests go to whichever replica is free. */
export interface Models {
  /** Fails with a sentence if nobody serves it. */
  look(name: string): Promise<ServedFacts>;
  tokenizer(name: string): Promise<string>;
  generate(name: string, question: Question): Promise<string>;
  /** One vector of length 1. */
  embed(name: string, text: string): Promise<readonly number[]>;
  forward(
    name: string,
    inputs: Tensor,
  ): Promise<readonly { readonly shape: readonly number[]; readonly data: Float32Array }[]>;
}

/** The world around a pipeline. */
export interface Outside {
  readonly access: SourceAccess;
  /** Where relative paths begin. */
  readonly folder: string;
  dataset(name: string): Promise<{ readonly manifest: Manifest; readonly fetchBlob: FetchBlob }>;
  /** A tokenizer.json. */
  vocabulary(name: string): Promise<string>;
  readonly models: Models;
}

export interface StepWork {
  /** For messages. */
  readonly where: string;
  readonly settings: Settings;
  readonly facts: Facts;
  readonly inputs: readonly Output[];
  readonly kit: Kit;
  readonly outside: Outside;
}

export interface Operator {
  readonly name: string;
  /** Counts changes of what it makes of the same input: a new number means that steps run again. */
  readonly version: number;
  /** How many steps it reads: none, one (named by `from`), or those that its settings name. */
  readonly reads: "nothing" | "one" | "named";
  /** Checks what somebody wrote, without looking at anything else. */
  read(given: unknown, where: string): Settings;
  readonly namesOf?: (settings: Settings) => readonly string[];
  /** What it gives for inputs of these formats; fails with a sentence where they do not fit. */
  gives(inputs: readonly Format[], settings: Settings, facts: Facts, where: string): Format;
  /** Looks at what it needs from outside before any step runs. The answer is part of the step's key. */
  look?(settings: Settings, outside: Outside, where: string): Promise<Facts>;
  run(work: StepWork): Promise<Output>;
}

/** Of operators that need rows. */
export function needRows([format]: readonly Format[], where: string): Format {
  if (format === "rows") return "rows";
  return fail("invalid_argument", `${where} works on rows, and is given tokens: put it before the step that tokenises`);
}

/** Of operators that move records about. */
export function sameFormat(formats: readonly Format[], where: string): Format {
  const [first] = formats;
  if (first === undefined || formats.some((format) => format !== first))
    fail("invalid_argument", `${where} is given rows and tokens together: tokenise all of them, or none`);
  return first;
}
