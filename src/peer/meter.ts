// How far away a peer is and how fast the way to it, from what a link sees anyway. Latency is the round trip of a ping.
// Throughput is the time between the receipts of parcels that followed each other without a gap: the time to a receipt
// alone would count the round trip as transfer.

/** The least of the last few pings: more says how busy both ends are, not how far apart. */
const pingsKept = 8;
/** Shorter stretches say more about timers than about the way. */
const stretchMsMin = 20;
/** How much a new stretch counts. */
const freshness = 0.2;

export class Meter {
  readonly #pings: number[] = [];
  readonly #sent = new Map<bigint, { readonly sentMs: number; readonly bytes: number }>();
  #lastReceiptMs = Number.NEGATIVE_INFINITY;
  #stretchBytes = 0;
  #stretchMs = 0;
  #bytesPerSecond = 0;
  #outstandingBytes = 0;

  /** 0 until measured. */
  get latencyMs(): number {
    return this.#pings.length === 0 ? 0 : Math.min(...this.#pings);
  }

  /** 0 until measured. */
  get bytesPerSecond(): number {
    return this.#bytesPerSecond;
  }

  /** Of parcels without a receipt. */
  get outstandingBytes(): number {
    return this.#outstandingBytes;
  }

  /** Of the oldest parcel without one: since when it is the next, and what it is for. What is sent again and again changes nothing. */
  get nextReceipt(): { readonly sinceMs: number; readonly bytes: number } | undefined {
    const [oldest] = this.#sent.values();
    return oldest && { sinceMs: Math.max(oldest.sentMs, this.#lastReceiptMs), bytes: oldest.bytes };
  }

  pong(roundTripMs: number): void {
    this.#pings.push(roundTripMs);
    if (this.#pings.length > pingsKept) this.#pings.shift();
  }

  /** The first byte of a parcel goes out. */
  sent(id: bigint, bytes: number, nowMs: number): void {
    this.#sent.set(id, { sentMs: nowMs, bytes });
    this.#outstandingBytes += bytes;
  }

  receipt(id: bigint, nowMs: number): void {
    const parcel = this.#sent.get(id);
    if (parcel === undefined) return;
    this.#sent.delete(id);
    this.#outstandingBytes -= parcel.bytes;
    const { latencyMs } = this;
    const sinceReceiptMs = nowMs - this.#lastReceiptMs;
    const tookMs = nowMs - parcel.sentMs - latencyMs;
    // On its way already when the parcel before it arrived: nothing but its own bytes lies between the two receipts.
    const followed = parcel.sentMs <= this.#lastReceiptMs - latencyMs;
    this.#lastReceiptMs = nowMs;
    if (this.#pings.length === 0) return;
    if (followed) this.#add(parcel.bytes, sinceReceiptMs);
    // One alone tells the same if its bytes took longer than the way.
    else if (tookMs > latencyMs) this.#add(parcel.bytes, tookMs);
  }

  #add(bytes: number, tookMs: number): void {
    this.#stretchBytes += bytes;
    this.#stretchMs += tookMs;
    if (this.#stretchMs < stretchMsMin) return;
    const measured = (this.#stretchBytes / this.#stretchMs) * 1_000;
    this.#bytesPerSecond += (this.#bytesPerSecond === 0 ? 1 : freshness) * (measured - this.#bytesPerSecond);
    this.#stretchBytes = 0;
    this.#stretchMs = 0;
  }

  /** The stream broke: receipts will not come. What was measured stays. */
  broke(): void {
    this.#sent.clear();
    this.#outstandingBytes = 0;
    this.#lastReceiptMs = Number.NEGATIVE_INFINITY;
  }
}
