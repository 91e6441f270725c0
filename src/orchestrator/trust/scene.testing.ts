// One audit in a network in which everybody is asked and answers as a test says.

import { sha256 } from "../../core/hash.ts";
import type { PNodeId } from "../../core/ids.ts";
import { resultOf, type Statement } from "../../trust/statement.ts";
import type { AuditRecord, AuditTask, Stated } from "../records/checking.ts";
import type { AuditFacts, Candidate } from "./asking.ts";
import { advanced } from "./disputes.ts";

export const pnode = (name: string) => name as PNodeId;

function statementOf(word: string, afterBytes = 100): Statement {
  return {
    ...{ session: "s", vnode: "a", from: 0, to: 2, life: "l", before: "", after: sha256(word), afterBytes },
    ...{ inputs: sha256("in"), inputsBytes: 1, outputs: sha256(`${word} out`), outputsBytes: 1, edges: {} },
    ...{ publicKey: "", signature: "" },
  };
}

export const stated = (by: string, word: string, afterBytes?: number): Stated => ({
  ...{ pnode: pnode(by), turn: 0, statement: statementOf(word, afterBytes) },
});

export const says = (word: string) => resultOf(statementOf(word));

export const found = (word: string, distance = 1) => ({ result: says(word), after: sha256(word), distance });

export const impossible = { gaveUp: "could not: no message 5", wasUnable: true, isImpossible: true } as const;

export class Scene {
  audit: AuditRecord;
  nowWallMs = 0;
  patienceMs = 1_000;
  spoiled = false;
  unreadable = false;
  missing: AuditFacts["missing"];
  here: (name: string) => boolean = () => true;
  ofClass: (name: string) => boolean = () => true;
  out: (name: string) => boolean = () => false;
  assurance: AuditFacts["assurance"] = "sampled";
  strangers = 1;
  again = false;
  readonly #candidates: readonly Candidate[];

  constructor(statements: readonly Stated[], candidates: readonly string[]) {
    this.audit = { stated: statements, tasks: [], ready: true, accused: [] };
    this.#candidates = candidates.map((name) => ({ pnode: pnode(name), trusted: name.startsWith("t") }));
  }

  look(): void {
    this.audit = advanced(this.audit, {
      ...{ nowWallMs: this.nowWallMs, assurance: this.assurance, openedWallMs: 0, patienceMs: this.patienceMs },
      ...{ isSpoiled: this.spoiled, missing: this.missing, strangers: this.strangers, again: this.again },
      waitedMs: (sinceWallMs) => this.nowWallMs - sinceWallMs,
      candidates: (except, trustedOnly) =>
        this.#candidates.filter((one) => !except.has(one.pnode) && (one.trusted || !trustedOnly)),
      isHere: (name) => this.here(name),
      isUnreadable: () => this.unreadable,
      isOfClass: (name) => this.ofClass(name),
      isOut: (name) => this.out(name),
    });
  }

  /** One look, and what those say who are asked by then. */
  hear(answer: (task: AuditTask) => Partial<AuditTask> | undefined): void {
    this.look();
    const tasks = this.audit.tasks.map((task) =>
      task.result === undefined && task.gaveUp === undefined ? { ...task, ...answer(task) } : task,
    );
    this.audit = { ...this.audit, tasks };
  }

  /** Until nothing changes any more. */
  run(answers: (task: AuditTask) => string | undefined, distance = 1): void {
    for (let round = 0; round < 30; round++)
      this.hear((task) => {
        const word = answers(task);
        return word === undefined ? undefined : found(word, distance);
      });
  }

  get verdicts(): Record<string, string | undefined> {
    return Object.fromEntries(this.audit.accused.map((one) => [one.pnode, one.verdict]));
  }
}
