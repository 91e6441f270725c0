// Work whose length an input decides that strangers wrote: definitions, templates, patterns. It is a pure function, named so
// that another thread finds it, and runs there within bounds; the thread that answers heartbeats does something else meanwhile.

/** One thread and its bounds. Works of one lane wait for each other. */
export interface Lane {
  readonly name: string;
  /** Of the thread's JavaScript heap. */
  readonly memoryMib: number;
  /** A thread without work ends after this, with all that its works remember. */
  readonly idleMs: number;
  /** Its works remember nothing of the bytes that they are given or give: these are freed at once. */
  readonly freesBytes?: true;
}

export interface Work<Input, Piece> {
  readonly lane: Lane;
  /** The module that exports this object, and under which name. */
  readonly module: string;
  readonly name: string;
  /** What is worked on, for the sentence that says that it took too long. */
  readonly what: string;
  readonly deadlineMs: number;
  /**
   * Pure, but for what it may remember to be quicker the next time. Input and pieces are plain data. An answer in pieces
   * is read piece by piece, with room for other work in between: each should be small.
   */
  readonly run: (input: Input) => Iterable<Piece>;
}

export interface Aside {
  /** Fails as the work does, or with `invalid_argument` when it exceeds its time or memory. */
  run<Input, Piece>(work: Work<Input, Piece>, input: Input): Promise<Piece[]>;
}

/** On this thread: for worlds whose time is not the machine's. */
export const asideHere: Aside = {
  run: async (work, input) => [...work.run(input)],
};

/** For works that answer in one piece. */
export async function runAside<Input, Piece>(aside: Aside, work: Work<Input, Piece>, input: Input): Promise<Piece> {
  const [piece] = await aside.run(work, input);
  return piece as Piece;
}
