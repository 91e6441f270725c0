// Gathers calls that come while others are under way, so that many of them cost a database one round trip and one flush to
// disk. A call that comes alone goes out at once.

export interface GroupLimits {
  /** Groups under way at the same time. */
  readonly atOnce: number;
  readonly sizeMax: number;
  readonly bytesMax: number;
}

export interface Grouped {
  /** Those with the same never go in one group, and later ones never before earlier ones. */
  readonly apart?: string;
  /** What it adds to the size of its group. */
  readonly bytes: number;
}

interface Waiting<Ask, Answer> {
  readonly ask: Ask;
  resolve(answer: Answer): void;
  reject(reason: unknown): void;
}

/** `perform` answers a whole group, in its order. */
export class Grouping<Ask extends Grouped, Answer> {
  readonly #limits: GroupLimits;
  readonly #perform: (group: readonly Ask[]) => Promise<readonly Answer[]>;
  #waiting: Waiting<Ask, Answer>[] = [];
  #underWay = 0;

  constructor(limits: GroupLimits, perform: (group: readonly Ask[]) => Promise<readonly Answer[]>) {
    this.#limits = limits;
    this.#perform = perform;
  }

  ask(ask: Ask): Promise<Answer> {
    return new Promise((resolve, reject) => {
      this.#waiting.push({ ask, resolve, reject });
      if (this.#underWay < this.#limits.atOnce) {
        this.#underWay++;
        void this.#groups();
      }
    });
  }

  async #groups(): Promise<void> {
    // Whatever is asked in the same turn goes together.
    await Promise.resolve();
    for (let group = this.#take(); group.length > 0; group = this.#take()) await this.#answer(group);
    this.#underWay--;
  }

  async #answer(group: readonly Waiting<Ask, Answer>[]): Promise<void> {
    try {
      const answers = await this.#perform(group.map(({ ask }) => ask));
      for (const [index, { resolve }] of group.entries()) resolve(answers[index] as Answer);
    } catch (thrown) {
      for (const { reject } of group) reject(thrown);
    }
  }

  /** The oldest, as many as go together; what stays keeps its order. */
  #take(): Waiting<Ask, Answer>[] {
    const { sizeMax, bytesMax } = this.#limits;
    const group: Waiting<Ask, Answer>[] = [];
    const left: Waiting<Ask, Answer>[] = [];
    const seen = new Set<string>();
    let bytes = 0;
    for (const one of this.#waiting) {
      const { apart, bytes: more } = one.ask;
      const fits = group.length < sizeMax && (group.length === 0 || bytes + more <= bytesMax);
      const isApart = apart !== undefined && seen.has(apart);
      if (apart !== undefined) seen.add(apart);
      if (fits && !isApart) {
        group.push(one);
        bytes += more;
      } else left.push(one);
    }
    this.#waiting = left;
    return group;
  }
}
