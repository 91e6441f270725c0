// Calls PNodes back by the routes that they name, before they get their first VNode: what is said of a machine's reach was
// tried, not assumed. One that nobody reaches gets no work and is told why. Later trouble between two machines is judged
// by those who have it (reachability.ts).

import { hasCode, outlookOf } from "../../../core/errors.ts";
import type { PNodeId } from "../../../core/ids.ts";
import { Backoff } from "../../../core/retry.ts";
import { untilEither } from "../../../core/signals.ts";
import { sleep } from "../../../core/world.ts";
import { SystemService } from "../../../protocol/gen/dcnr/v1/system_pb.ts";
import type { Network } from "../../../protocol/network.ts";
import { withKey } from "../../../protocol/routes/address.ts";
import { parseRoute, type Route, shownRoute, splitRoutes } from "../../../protocol/routes/routes.ts";
import { isRefused } from "../../../protocol/streams/wire-errors.ts";
import type { Context } from "../../context.ts";
import type { PNodeRecord } from "../../records/machines.ts";
import { key } from "../../records/store-keys.ts";

/** What came of a callback. */
export interface Verdict {
  /** "directly", "by relay NAME", or empty. */
  readonly how: string;
  readonly problem: string;
}

export const directly = "directly";

export interface CallbackHooks {
  /** Whether this orchestrator still looks after the attachment. */
  isHere(pnode: PNodeId): boolean;
  tell(pnode: PNodeId, verdict: Verdict): void;
  /** The name of the relay with a key, for people; undefined if nobody knows it. */
  relayName(key: string): string | undefined;
  /** Whether anybody in the network relays tensors. */
  anyRelay(): boolean;
  onFleetChange(pnode: PNodeId): void;
}

const answerMs = 2_500;
/** Usual machines answer at once, and their registration says so from the start. */
const atTheDoorMs = 300;
/** A process that was killed is through with its end after a few of these; together they are well within any grace. */
const endingMs = 25;
const endingCallsMax = 6;
const againMinMs = 1_000;
const againMaxMs = 10_000;
/** One that was reached before is believed for so many callbacks in vain. */
const failuresMax = 3;

export class Callbacks {
  readonly #context: Context;
  readonly #network: Network;
  readonly #hooks: CallbackHooks;
  /** By PNode: aborted when it is to be called anew. */
  readonly #calling = new Map<PNodeId, AbortController>();

  constructor(context: Context, network: Network, hooks: CallbackHooks) {
    this.#context = context;
    this.#network = network;
    this.#hooks = hooks;
  }

  /** Before it is registered: whether it answers at once, and directly. */
  async atTheDoor(pnode: PNodeId, routes: readonly string[]): Promise<boolean> {
    const direct = routes.filter((route) => parseRoute(route).kind === "direct");
    const { signal } = this.#context.tasks;
    const answers = direct.map(async (route) => {
      if (!(await this.#answers(withKey(route, pnode), signal, atTheDoorMs))) throw new Error("no answer");
    });
    return Promise.any(answers).then(
      () => true,
      () => false,
    );
  }

  /** Whether nobody listens where it was reached directly. Others may be at the addresses of one that never was. */
  async isGone(pnode: PNodeId): Promise<boolean> {
    const { mirror, tasks } = this.#context;
    const { reached, routes = "" } = mirror.get(key.pnode(pnode)) ?? {};
    const direct = splitRoutes(routes).filter((route) => parseRoute(route).kind === "direct");
    if (reached !== directly || direct.length === 0) return false;
    const refusals = direct.map((route) => this.#refuses(withKey(route, pnode), tasks.signal));
    return (await Promise.all(refusals)).every(Boolean);
  }

  /** A process that is ending breaks its connections before its machine refuses new ones: a call that broke is made again. */
  async #refuses(address: string, signal: AbortSignal): Promise<boolean> {
    for (let calls = 1; ; calls++)
      try {
        await this.#network.call(address, SystemService.method.getVersion, {}, { timeoutMs: atTheDoorMs, signal });
        return false;
      } catch (error) {
        if (isRefused(error)) return true;
        if (calls >= endingCallsMax || signal.aborted || !hasCode(error, "unavailable")) return false;
        await sleep(this.#context.world.timers, endingMs, signal);
      }
  }

  /** It has registered, or is somewhere else than before. */
  begin(pnode: PNodeId, isFirst = false): void {
    this.#calling.get(pnode)?.abort();
    const anew = new AbortController();
    this.#calling.set(pnode, anew);
    this.#context.tasks.insist(`calling ${pnode} back`, async () => {
      await untilEither([anew.signal, this.#context.tasks.signal], (signal) => this.#until(pnode, isFirst, signal));
      if (this.#calling.get(pnode) === anew) this.#calling.delete(pnode);
    });
  }

  async #until(pnode: PNodeId, isFirst: boolean, signal: AbortSignal): Promise<void> {
    const { world } = this.#context;
    const backoff = new Backoff(againMinMs, againMaxMs, world.chance);
    for (let failures = 0; !signal.aborted && this.#hooks.isHere(pnode); ) {
      const record = this.#context.mirror.get(key.pnode(pnode));
      if (record === undefined) return;
      if (isFirst && record.reached === directly) return this.#hooks.tell(pnode, { how: directly, problem: "" });
      const verdict = await this.#call(record, signal);
      if (signal.aborted || !this.#hooks.isHere(pnode)) return;
      if (verdict.how === "") failures++;
      const isBelieved = record.reached !== undefined && verdict.how === "" && failures < failuresMax;
      if (!isBelieved) await this.#note(record, verdict);
      if (verdict.how !== "") return;
      await sleep(world.timers, backoff.next(), signal);
    }
  }

  async #call({ id, routes }: PNodeRecord, signal: AbortSignal): Promise<Verdict> {
    const texts = splitRoutes(routes);
    const known = texts.map((text) => ({ text, route: parseRoute(text) }));
    const answers = await Promise.all(
      known.map(async ({ text, route }) => ({ route, answered: await this.#answers(withKey(text, id), signal) })),
    );
    const reached = answers.filter(({ answered }) => answered).map(({ route }) => route);
    if (reached.some(({ kind }) => kind === "direct")) return { how: directly, problem: "" };
    const relay = reached.find((route) => route.kind === "relayed" && route.tensors);
    if (relay !== undefined) return { how: `by relay ${this.#nameOf(relay)}`, problem: "" };
    return { how: "", problem: this.#problem(texts, reached.length > 0) };
  }

  async #answers(address: string, signal: AbortSignal, timeoutMs = answerMs): Promise<boolean> {
    try {
      await this.#network.call(address, SystemService.method.getVersion, {}, { timeoutMs, signal });
      return true;
    } catch (error) {
      // Whoever answers with a refusal of its own was reached.
      return outlookOf(error) === "final" && (error as { code?: string }).code === "unimplemented";
    }
  }

  #nameOf(route: Route): string {
    return (route.kind === "relayed" && this.#hooks.relayName(route.relay)) || route.address;
  }

  #problem(routes: readonly string[], callsGetThrough: boolean): string {
    const where = routes
      .filter((route) => !route.includes("@"))
      .map(shownRoute)
      .join(", ");
    const noDirect = where === "" ? "nobody can connect to it (it is a browser)" : `nobody answers at ${where}`;
    const found = callsGetThrough
      ? `calls reach this machine by a relay that carries no tensors, and ${noDirect}`
      : noDirect;
    if (where === "" && !this.#hooks.anyRelay())
      return `${found}: let an orchestrator of the network relay (--relay), then it gets work`;
    if (this.#hooks.anyRelay()) return `${found}: it has to wait at a relay, which is tried now`;
    return (
      `${found}: forward a port to it and give it --advertise, or let an orchestrator or a public machine of the network ` +
      "relay (--relay)"
    );
  }

  async #note({ id, attachment }: PNodeRecord, { how, problem }: Verdict): Promise<void> {
    const { mirror, events } = this.#context;
    const { written, record } = await mirror.update(key.pnode(id), (current) => {
      if (current?.attachment !== attachment) return undefined;
      if ((current.reached ?? "") === how && (current.unreached ?? "") === problem) return undefined;
      const { reached: _, unreached: __, ...rest } = current;
      return how === "" ? { ...rest, unreached: problem } : { ...rest, reached: how };
    });
    this.#hooks.tell(id, { how, problem });
    if (!written || record === undefined) return;
    const name = (record as PNodeRecord).name;
    if (how === "") events.emit("warn", "pnode.unreached", `PNode ${name} gets no work: ${problem}`, { pnode: id });
    else events.emit("info", "pnode.reached", `PNode ${name} was called back and answered ${how}`, { pnode: id });
    this.#hooks.onFleetChange(id);
  }
}
