// Which names of owners and networks several machines go by: counted as machines come and go, since every placement asks and a fleet
// may have ten thousand of them.

import type { FleetNode } from "./types.ts";

export function namesOf({ owner, network }: Pick<FleetNode, "owner" | "network">): string[] {
  const names = [];
  if (owner !== "") names.push(`owner ${owner}`);
  if (network !== undefined) names.push(`network ${network}`);
  return names;
}

export class Names {
  readonly #sizes = new Map<string, number>();
  readonly #shared = new Map<string, number>();

  constructor(others?: Names) {
    if (others === undefined) return;
    for (const [name, size] of others.#sizes) this.#sizes.set(name, size);
    for (const [name, size] of others.#shared) this.#shared.set(name, size);
  }

  /** Machines by name, of names that more than one has. */
  get shared(): ReadonlyMap<string, number> {
    return this.#shared;
  }

  count(node: FleetNode, sign: 1 | -1): void {
    for (const name of namesOf(node)) {
      const size = (this.#sizes.get(name) ?? 0) + sign;
      if (size > 0) this.#sizes.set(name, size);
      else this.#sizes.delete(name);
      if (size > 1) this.#shared.set(name, size);
      else this.#shared.delete(name);
    }
  }
}
