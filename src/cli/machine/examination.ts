// An examination of this machine: memory, and the same numbers computed again and again, which must come out alike. What it
// finds is kept in the PNode's folder, so that the PNode can say, when it registers, that it has passed since.

import { fail } from "../../core/errors.ts";
import { Remembered } from "../../system/files/remembered.ts";
import type { MemoryFound } from "../../system/machine/memory-test.ts";
import type { Measured } from "./measure-machine.ts";

/** As many as intervals that have to be right until a machine is known. */
export const roundsDefault = 10;

export interface Examined {
  readonly memory: MemoryFound;
  readonly rounds: number;
  /** By engine, every class that came out: more than one where it does not compute the same each time. */
  readonly classes: Readonly<Record<string, readonly string[]>>;
  /** What is wrong, one sentence each; empty if nothing was found. */
  readonly troubles: readonly string[];
}

export interface Examining {
  readonly rounds: number;
  readonly measure: () => Promise<Pick<Measured, "classes">>;
  /** The classes of engines whose bits are the same on every machine: whoever comes to something else each time is broken too. */
  readonly everywhere: Readonly<Record<string, string>>;
  /** What is wrong with the result of an interval whose result is known (canned-interval.ts). */
  readonly repeatKnown: () => Promise<string | undefined>;
  /** Calls `settle` now and then, which stops it by throwing. */
  readonly testMemory: (settle: () => void) => Promise<MemoryFound>;
  /** Whoever stops an examination has learned nothing by it. */
  readonly signal: AbortSignal;
  readonly say: (sentence: string) => void;
}

export async function examine({
  rounds,
  measure,
  everywhere,
  repeatKnown,
  testMemory,
  signal,
  say,
}: Examining): Promise<Examined> {
  const goOn = () => {
    if (signal.aborted) fail("cancelled", "stopped: this machine was not examined to the end");
  };
  const memory = await testMemory(goOn);
  say(`memory: ${memory.errors === 0 ? "everything came back as it was written" : `${memory.errors} words did not`}`);
  const found = new Map<string, Set<string>>();
  for (let round = 1; round <= rounds; round++) {
    for (const { engine, class: name } of (await measure()).classes)
      found.set(engine, (found.get(engine) ?? new Set()).add(name));
    goOn();
    say(`numbers: round ${round} of ${rounds}`);
  }
  const wrong = await repeatKnown();
  goOn();
  say(`an interval whose result is known: ${wrong === undefined ? "it came out" : "another result came out"}`);
  const troubles: string[] = wrong === undefined ? [] : [wrong];
  if (memory.errors > 0)
    troubles.push(
      `memory does not keep what is written into it (${memory.first}): replace it, or lend this machine no more`,
    );
  for (const [engine, classes] of found) {
    const [only = ""] = classes;
    if (classes.size > 1)
      troubles.push(
        `the ${engine} engine came to ${classes.size} different results from the same numbers: heat, power or the processor`,
      );
    else if (only !== (everywhere[engine] ?? only))
      troubles.push(`the ${engine} engine comes to other numbers than everywhere else, each time: the processor`);
  }
  const classes = Object.fromEntries(Array.from(found, ([engine, names]) => [engine, [...names]]));
  return { memory, rounds, classes, troubles };
}

interface Passed {
  readonly wallMs: number;
}

export class Examinations {
  readonly #kept: Remembered<Passed>;

  constructor(folder: string) {
    this.#kept = new Remembered<Passed>(folder, "examined.json", "1");
  }

  /** Only what found nothing is kept: a machine that fails has not passed, whatever was before. */
  async note({ troubles }: Examined, wallMs: number): Promise<void> {
    await this.#kept.set({ wallMs: troubles.length === 0 ? wallMs : 0 });
  }

  /** How long ago nothing was found; undefined if it never was looked for, or something was. */
  async passedMsAgo(wallMs: number): Promise<number | undefined> {
    const { wallMs: passed = 0 } = (await this.#kept.get()) ?? {};
    return passed > 0 ? Math.max(0, wallMs - passed) : undefined;
  }
}
