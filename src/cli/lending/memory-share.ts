// The part of this machine's memory that one PNode lends, followed while other PNodes of the machine come and go.

import { messageOf } from "../../core/errors.ts";
import { sleep, type World } from "../../core/world.ts";
import type { PNode } from "../../pnode/pnode.ts";
import { LentHere, lentHereFolder, type OwnEntry } from "./lent-here.ts";
import { fairBytes, type Lender, lackOf, memoryEnough, sharedText } from "./shares.ts";

/** How often each of them looks who is there. */
const lookMs = 1_000;
/** Others that see a newcomer give way within two looks, unless they work with what they have. */
const givingWayMs = 200;
const givingWayLooks = 15;
/** On a busy machine it takes longer: nobody is refused for that. */
const refusedLooks = 75;

export class MemoryShare {
  readonly #here: LentHere | undefined;
  readonly #own: OwnEntry;
  readonly #machineBytes: number;
  readonly #world: Pick<World, "log" | "timers">;
  #bytes: number;
  #others: readonly Lender[] = [];
  #timer: ReturnType<typeof setInterval> | undefined;
  #trouble = "";

  private constructor(
    here: LentHere | undefined,
    own: OwnEntry,
    machineBytes: number,
    world: Pick<World, "log" | "timers">,
  ) {
    this.#here = here;
    this.#own = own;
    this.#machineBytes = machineBytes;
    this.#world = world;
    this.#bytes = own.wantsBytes || machineBytes;
  }

  /** Fails with a sentence where others lend what it wants. */
  static async enter(
    own: OwnEntry,
    machineBytes: number,
    world: Pick<World, "log" | "timers">,
    folder = lentHereFolder(process.env),
  ): Promise<MemoryShare> {
    const share = new MemoryShare(openHere(folder, machineBytes, world), own, machineBytes, world);
    await share.#enter();
    return share;
  }

  /** What it lends now. */
  get bytes(): number {
    return this.#bytes;
  }

  /** Who else lends of this machine; empty if nobody does. */
  get text(): string {
    return sharedText(this.#others, this.#machineBytes);
  }

  follow(pnode: Pick<PNode, "shareMemory">): void {
    this.#timer = setInterval(() => this.look(pnode), lookMs);
    this.#timer.unref();
  }

  look(pnode: Pick<PNode, "shareMemory">): void {
    try {
      pnode.shareMemory((heldBytes) => this.#look(heldBytes));
      this.#trouble = "";
    } catch (error) {
      this.#tell(messageOf(error));
    }
  }

  leave(): void {
    clearInterval(this.#timer);
    try {
      this.#here?.leave([this.#own.directory]);
      this.#here?.close();
    } catch (error) {
      this.#tell(messageOf(error));
    }
  }

  async #enter(): Promise<void> {
    if (!this.#here) return;
    this.#bytes = this.#here.enter(this.#own);
    for (let look = 1; look <= refusedLooks; look++) {
      this.#others = this.#here.others(this.#own.directory);
      if (this.#bytes >= fairBytes(this.#own, this.#others, this.#machineBytes)) return;
      if (look > givingWayLooks && memoryEnough(this.#bytes)) return;
      await sleep(this.#world.timers, givingWayMs);
      this.#look(0);
    }
    this.leave();
    lackOf(this.#others, this.#machineBytes);
  }

  #look(heldBytes: number): number {
    if (!this.#here) return this.#bytes;
    this.#bytes = this.#here.share(this.#own, heldBytes);
    this.#others = this.#here.others(this.#own.directory);
    return this.#bytes;
  }

  /** Once, not every second. */
  #tell(trouble: string): void {
    if (trouble !== this.#trouble) this.#world.log("warn", unknownOthers(trouble));
    this.#trouble = trouble;
  }
}

function openHere(folder: string, machineBytes: number, world: Pick<World, "log">): LentHere | undefined {
  try {
    return LentHere.open(folder, machineBytes);
  } catch (error) {
    world.log("warn", unknownOthers(messageOf(error)));
    return undefined;
  }
}

function unknownOthers(why: string): string {
  return `what other PNodes lend of this machine's memory is not known: ${why}`;
}
