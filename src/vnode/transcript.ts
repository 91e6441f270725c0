// What a VNode consumed and produced in one life, by checkpoint interval: heard from the process's effects, without I/O. A
// life begins at a recovery line, so that it sees every interval that it ends from its first message on.

import { edgeRoot, type ListedInput, type OutputList } from "../trust/lists.ts";
import { silentRoot } from "../trust/silent.ts";
import type { Measures, Proof } from "./effects.ts";
import { keyOf, type MessageName } from "./names.ts";
import type { Role } from "./role.ts";
import type { Schedule } from "./schedule.ts";

export interface Passage {
  readonly from: number;
  readonly to: number;
  readonly inputs: readonly ListedInput[];
  /** Of those who signed inputs, by sender. */
  readonly keys: Readonly<Record<string, string>>;
  readonly outputs: Pick<OutputList, "messages" | "steps" | "measures" | "evaluations">;
  /** By "f/edge" and "b/edge". */
  readonly edges: Readonly<Record<string, string>>;
  readonly validation?: { readonly step: number; readonly loss: number };
}

interface Entry<T> {
  readonly name: MessageName;
  readonly value: T;
}

export class Transcript {
  readonly #schedule: Schedule;
  readonly #edges: readonly string[];
  /** What passes there is not listed (trust/silent.ts). */
  #silent: ReadonlySet<string> = new Set();
  /** Of the interval that is written next. */
  #from: number;
  #inputs: Entry<ListedInput>[] = [];
  readonly #keys = new Map<string, string>();
  #outputs: Entry<string>[] = [];
  #steps: [number, string][] = [];
  #measures: [number, Measures][] = [];
  #evaluations: [number, Measures][] = [];

  constructor(role: Role, schedule: Schedule, line: number) {
    this.#schedule = schedule;
    this.#from = line;
    this.#edges = edgesOf(role);
  }

  /** Before anything has passed: those edges stay unlisted for the whole life. */
  silence(edges: Iterable<string>): void {
    this.#silent = new Set(edges);
  }

  isSilent(edge: string): boolean {
    return this.#silent.has(edge);
  }

  /** A message that is kept for its step: every one of them is consumed there. */
  received(name: MessageName, hash: string, sender: string, proof?: Proof): void {
    if (name.step < this.#from || this.isSilent(name.edge)) return;
    const { life = "", signature = "", publicKey } = proof ?? {};
    if (publicKey !== undefined) this.#keys.set(sender, publicKey);
    this.#inputs.push({ name, value: { key: keyOf(name), hash, sender, life, signature } });
  }

  sent(name: MessageName, hash: string): void {
    if (this.isSilent(name.edge)) return;
    this.#outputs.push({ name, value: hash });
  }

  published(step: number, hash: string, measures: Measures): void {
    this.#steps.push([step, hash]);
    this.#measures.push([step, measures]);
  }

  evaluated(step: number, measures: Measures): void {
    this.#evaluations.push([step, measures]);
  }

  /** The interval that ends with the checkpoint at `to`, taken out of the transcript. */
  take(to: number): Passage {
    const from = this.#from;
    const isWithin = (step: number) => step < to || to === this.#schedule.steps;
    const split = <T>(all: readonly T[], step: (item: T) => number): [taken: T[], kept: T[]] => [
      all.filter((item) => isWithin(step(item))),
      all.filter((item) => !isWithin(step(item))),
    ];
    const [inputs, laterInputs] = split(this.#inputs, ({ name }) => name.step);
    const [outputs, laterOutputs] = split(this.#outputs, ({ name }) => name.step);
    // A state after `step` updates and a validation before update `step` belong to different sides of a checkpoint.
    const [steps, laterSteps] = split(this.#steps, ([step]) => step - 1);
    const [measures, laterMeasures] = split(this.#measures, ([step]) => step - 1);
    const [evaluations, laterEvaluations] = split(this.#evaluations, ([step]) => step);
    [this.#inputs, this.#outputs, this.#steps] = [laterInputs, laterOutputs, laterSteps];
    [this.#measures, this.#evaluations] = [laterMeasures, laterEvaluations];
    this.#from = to;
    const sent = outputs.map(({ name, value }) => ({ name, hash: value }));
    const taken = inputs.map(({ name, value }) => ({ name, hash: value.hash }));
    const validated = evaluations.at(-1);
    const loss = validated?.[1]["loss"];
    return {
      from,
      to,
      inputs: inputs.map(({ value }) => value),
      keys: Object.fromEntries(
        inputs.flatMap(({ value: { sender } }) => {
          const key = this.#keys.get(sender);
          return key === undefined ? [] : [[sender, key]];
        }),
      ),
      outputs: { messages: sent.map(({ name, hash }) => [keyOf(name), hash]), steps, measures, evaluations },
      edges: this.#rootsOf([...sent, ...taken]),
      ...(validated === undefined || loss === undefined ? {} : { validation: { step: validated[0], loss } }),
    };
  }

  #rootsOf(messages: readonly { readonly name: MessageName; readonly hash: string }[]): Record<string, string> {
    const byEdge = Map.groupBy(messages, ({ name }) => `${name.direction === "forward" ? "f" : "b"}/${name.edge}`);
    const rootOf = (edge: string) =>
      this.isSilent(edge.slice(2))
        ? silentRoot
        : edgeRoot((byEdge.get(edge) ?? []).map(({ name, hash }) => [keyOf(name), hash] as const));
    return Object.fromEntries(this.#edges.map((edge) => [edge, rootOf(edge)]));
  }
}

function edgesOf(role: Role): string[] {
  const edges = [
    ...[...role.activationsIn, ...role.tiesIn, ...role.reducesIn],
    ...[...role.activationsOut, ...role.tiesOut, ...role.reducesOut],
  ];
  return edges.flatMap(({ id, gradient }) => [`f/${id}`, ...(gradient ? [`b/${id}`] : [])]);
}
