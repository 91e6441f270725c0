// Counts what holders take of something that there is only so much of, for each of them and in all.

export class Shares {
  readonly #taken = new Map<string, number>();
  readonly #perHolder: number;
  readonly #max: number;
  #total = 0;

  constructor(perHolder: number, max: number) {
    this.#perHolder = perHolder;
    this.#max = max;
  }

  get total(): number {
    return this.#total;
  }

  of(holder: string): number {
    return this.#taken.get(holder) ?? 0;
  }

  /** False if it would be too much; nothing is taken then. Without a holder only the sum counts. */
  take(holder: string | undefined, amount = 1): boolean {
    const before = holder === undefined ? 0 : (this.#taken.get(holder) ?? 0);
    if (this.#total + amount > this.#max || before + amount > this.#perHolder) return false;
    this.#total += amount;
    if (holder !== undefined) this.#taken.set(holder, before + amount);
    return true;
  }

  give(holder: string | undefined, amount = 1): void {
    this.#total -= amount;
    if (holder === undefined) return;
    const left = (this.#taken.get(holder) ?? 0) - amount;
    if (left > 0) this.#taken.set(holder, left);
    else this.#taken.delete(holder);
  }
}

/**
 * Whose share a connection uses: that of its address, for IPv6 of the network that one customer has. Callers on this
 * machine have none of their own: a proxy would hold everybody's.
 */
export function shareOf(address: string): string | undefined {
  if (address === "127.0.0.1" || address === "::1") return undefined;
  return ipv6Pattern.test(address) ? networkOf(address) : address;
}

/** What is carried by a relay is counted for "key@host:port", which this is not. */
const ipv6Pattern = /^[0-9a-f]*:[0-9a-f:.]*(%.*)?$/i;

/** The first 64 bits, written out. */
function networkOf(address: string): string {
  const [head = "", tail] = address.split("%", 1)[0]?.split("::") ?? [];
  const groups = head === "" ? [] : head.split(":");
  const behind = tail === undefined || tail === "" ? 0 : tail.split(":").length;
  const zeros = tail === undefined ? 0 : 8 - groups.length - behind;
  const all = [...groups, ...Array.from({ length: zeros }, () => "0"), ...(tail?.split(":") ?? [])];
  return `${all.slice(0, 4).join(":")}::/64`;
}
