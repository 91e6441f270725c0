// What this browser has contributed: of this visit as the worker tells it, and in all, remembered on this device.

const storageKey = "dcnr-contributed";

export interface Contributed {
  readonly pieces: number;
  readonly computedMs: number;
}

/** Where contributions are remembered; a test gives another. */
export type Memory = Pick<Storage, "getItem" | "setItem">;

export class Contribution {
  readonly #memory: Memory | undefined;
  #counted: Contributed = { pieces: 0, computedMs: 0 };

  constructor(memory: Memory | undefined = ownMemory()) {
    this.#memory = memory;
  }

  /** The worker's counts of this visit, which begin again at 0 with every worker. */
  seen({ pieces, computedMs }: Contributed): void {
    const before = pieces < this.#counted.pieces ? { pieces: 0, computedMs: 0 } : this.#counted;
    const total = this.total;
    this.#counted = { pieces, computedMs };
    if (pieces === before.pieces) return;
    const sum = {
      pieces: total.pieces + pieces - before.pieces,
      computedMs: Math.round(total.computedMs + computedMs - before.computedMs),
    };
    try {
      this.#memory?.setItem(storageKey, JSON.stringify(sum));
    } catch {
      // Private windows keep nothing.
    }
  }

  get total(): Contributed {
    try {
      const { pieces, computedMs } = JSON.parse(this.#memory?.getItem(storageKey) ?? "{}") as Partial<Contributed>;
      if (Number.isFinite(pieces) && Number.isFinite(computedMs)) return { pieces, computedMs } as Contributed;
    } catch {
      // What is there is not ours.
    }
    return { pieces: 0, computedMs: 0 };
  }
}

function ownMemory(): Memory | undefined {
  try {
    return localStorage;
  } catch {
    return undefined;
  }
}

export function piecesText(pieces: number): string {
  return pieces === 1 ? "1 piece of work" : `${pieces} pieces of work`;
}

export function durationText(ms: number): string {
  const seconds = Math.round(ms / 1000);
  if (seconds < 60) return `${seconds} s`;
  const minutes = Math.floor(seconds / 60);
  return minutes < 60 ? `${minutes} min ${seconds % 60} s` : `${Math.floor(minutes / 60)} h ${minutes % 60} min`;
}
