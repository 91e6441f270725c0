// What was lost to whom because sessions went back, as the store's writes tell it, and that nobody is given more for that
// than it has lost. Counted by hand from the records, with nothing of the ledger's own.

import type { Slash } from "../../src/orchestrator/ledger/block.ts";
import type { IntervalRecord } from "../../src/orchestrator/records/checking.ts";
import type { SessionRecord } from "../../src/orchestrator/records/sessions.ts";
import type { VNodeRecord } from "../../src/orchestrator/records/vnodes.ts";

/** Whoever was to be paid for a step of a VNode, at any moment of the session's present turn. */
type Workers = Map<number, Set<string>>;

interface Followed {
  record: SessionRecord;
  readonly workers: Map<string, Workers>;
  readonly flops: Map<string, number>;
  /** By PNode, in credits: upper bounds, since the ledger rounds. */
  readonly lost: Map<string, number>;
  readonly madeGood: Map<string, number>;
  /** Audits that are counted. */
  readonly repeated: Set<string>;
}

const flopsPerCredit = 1_000_000;
const over: ReadonlySet<string> = new Set(["done", "failed", "deleted"]);

export class LossChecker {
  readonly #wrong: (message: string) => void;
  readonly #sessions = new Map<string, Followed>();

  constructor(wrong: (message: string) => void) {
    this.#wrong = wrong;
  }

  wroteSession(record: SessionRecord): void {
    const known = this.#sessions.get(record.id);
    if (known === undefined) {
      const maps = { workers: new Map(), flops: new Map(), lost: new Map(), madeGood: new Map() };
      this.#sessions.set(record.id, { record, ...maps, repeated: new Set() });
      return;
    }
    const isBack = (record.turn ?? 0) > (known.record.turn ?? 0);
    const isOver = over.has(record.status) && !over.has(known.record.status);
    known.record = record;
    if (isBack) throwAway(known, record.line);
    // Nobody is paid any more for what is not final by then.
    if (isOver) throwAway(known, record.final ?? record.line);
  }

  wroteVNode({ session, vnode, work = {}, flops, turn = 0 }: VNodeRecord): void {
    const known = this.#sessions.get(session);
    if (known === undefined) return;
    const { voided, policy } = known.record;
    const workers = known.workers.get(vnode) ?? new Map<number, Set<string>>();
    known.workers.set(vnode, workers);
    known.flops.set(vnode, flops);
    for (const [step, pnodes] of Object.entries(work)) {
      // What an earlier turn left behind was counted when the session went back.
      if (voided !== undefined && turn < voided.turn && Number(step) > voided.line) continue;
      const all = workers.get(Number(step)) ?? new Set();
      workers.set(Number(step), all);
      for (const pnode of pnodes.slice(0, policy.replicas ?? 1)) all.add(pnode);
    }
  }

  /** Whoever repeated what turned out to be wrong has lost that work too. */
  wroteInterval({ session, from, to, turn, audits, repair }: IntervalRecord): void {
    const known = this.#sessions.get(session);
    if (known === undefined || repair === undefined) return;
    for (const [vnode, { tasks }] of Object.entries(audits))
      for (const { pnode, role, result } of tasks) {
        const name = `${to} ${turn} ${vnode} ${pnode}`;
        if (role !== "audit" || result === undefined || known.repeated.has(name)) continue;
        known.repeated.add(name);
        add(known.lost, pnode, creditsAtMost(known, vnode, to - from));
      }
  }

  wroteSlash(key: string, session: string, { legs }: Slash): void {
    const known = this.#sessions.get(session);
    if (known === undefined) return;
    for (const [name, amount] of Object.entries(legs)) {
      if (!name.startsWith("available/") || amount <= 0) continue;
      const pnode = name.slice("available/".length);
      add(known.madeGood, pnode, amount);
      const [made, lost] = [known.madeGood.get(pnode) ?? 0, known.lost.get(pnode) ?? 0];
      if (made > lost)
        this.#wrong(`${key} gives ${pnode} ${made} credits in all for what it has lost, which is ${lost}`);
    }
  }
}

/** All work above the line has to be done again. */
function throwAway(known: Followed, line: number): void {
  const above = Math.max(line, known.record.final ?? 0);
  for (const [vnode, workers] of known.workers) {
    let before = above;
    for (const step of [...workers.keys()].sort((a, b) => a - b)) {
      if (step <= above) continue;
      for (const pnode of workers.get(step) ?? []) add(known.lost, pnode, creditsAtMost(known, vnode, step - before));
      workers.delete(step);
      before = step;
    }
  }
}

function creditsAtMost({ flops }: Followed, vnode: string, steps: number): number {
  return Math.ceil(((flops.get(vnode) ?? 0) * steps) / flopsPerCredit);
}

function add(sums: Map<string, number>, pnode: string, credits: number): void {
  sums.set(pnode, (sums.get(pnode) ?? 0) + credits);
}
