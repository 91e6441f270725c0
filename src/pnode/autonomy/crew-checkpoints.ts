// Checkpoints of a session that may go on without orchestrators: held by keepers first, then recorded in the store as soon
// as an orchestrator takes this PNode's word for the VNode. The store's line therefore never gets ahead of what the crew
// holds; while nobody is there, what the crew holds is enough.

import { messageOf } from "../../core/errors.ts";
import { untilEither } from "../../core/signals.ts";
import { sleep } from "../../core/world.ts";
import { type CheckpointOptions, makeDurable, type Recorded } from "../checkpoints.ts";
import { NoRoom } from "../room.ts";
import type { ToldLine } from "../told-line.ts";
import type { Life, NotPersisted, Persisted } from "../training/life.ts";
import type { KeptStates } from "./kept-states.ts";
import type { SessionCrew } from "./session-crew.ts";

/** How often it is looked whether an orchestrator is back. */
const lookMs = 250;

export interface CrewCheckpointOptions extends CheckpointOptions {
  readonly crew: SessionCrew;
  readonly kept: KeptStates;
  readonly flush: () => Promise<void>;
  /** Hears when a record was refused that nobody waits for any more. */
  readonly onFenced: () => void;
}

/** Makes the present state safe; undefined if the life ends first. */
export async function persistWithCrew(
  options: CrewCheckpointOptions,
  life: Life,
  step: number,
): Promise<Persisted | undefined> {
  const { crew, signal } = options;
  const keeping = keepState(options, life, step);
  const recording = recordAfter(options, life, step, keeping);
  let isWaitedFor = true;
  const recorded = recording.then((outcome) => {
    if (!isWaitedFor && outcome?.kind === "fenced") options.onFenced();
    return outcome;
  });
  const alone = keeping.then(async (trouble): Promise<Persisted | undefined> => {
    if (trouble !== undefined) return trouble;
    await crew.untilAlone(signal);
    return signal.aborted ? undefined : { kind: "accepted", told: toldBy(crew) };
  });
  const outcome = await Promise.race([recorded, alone]);
  isWaitedFor = false;
  return outcome;
}

/** Resolves when the crew holds it; with the reason if this PNode cannot bring that about. */
async function keepState(
  { crew, vnode, signal, snapshot }: CrewCheckpointOptions,
  life: Life,
  step: number,
): Promise<NotPersisted | undefined> {
  try {
    // Taken now: the next update changes the weights in place, and waits until they are read.
    const taking = life.compute.state.take(step, snapshot);
    const hashes = life.hashes.filter((entry) => entry.step <= step);
    const taken = await taking;
    await crew.keeping.keepOwn(vnode, step, taken, hashes, signal).finally(() => taken.release());
    return undefined;
  } catch (error) {
    return signal.aborted ? undefined : notPersisted(step, error);
  }
}

function notPersisted(step: number, error: unknown): NotPersisted {
  const noRoom = error instanceof NoRoom;
  return { kind: "failed", reason: `checkpoint at step ${step}: ${messageOf(error)}`, noRoom };
}

/** The state that a life has started from, if no store has it yet. */
export function recordStart(options: CrewCheckpointOptions, life: Life): void {
  void recordAfter(options, life, life.start, Promise.resolve(undefined)).then((outcome) => {
    if (outcome?.kind === "fenced") options.onFenced();
  });
}

/** In the order of steps, so that the hashes of all steps below a line are known when it moves. */
function recordAfter(
  options: CrewCheckpointOptions,
  life: Life,
  step: number,
  keeping: Promise<NotPersisted | undefined>,
): Promise<Persisted | undefined> {
  const before = life.persisting;
  const recording = (async (): Promise<Persisted | undefined> => {
    const [trouble] = await Promise.all([keeping, before]);
    if (options.signal.aborted || trouble !== undefined) return trouble;
    try {
      // The last record may end the session: what was measured has to be known by then.
      if (step === life.context.schedule.steps) await options.flush();
      const recorded = await recordWhenPossible(options, life, step);
      if (recorded?.kind === "accepted" && !recorded.skipped)
        life.hashes = life.hashes.filter((entry) => entry.step > step);
      return recorded;
    } catch (error) {
      return options.signal.aborted ? undefined : notPersisted(step, error);
    }
  })();
  life.persisting = recording.then(() => {});
  return recording;
}

type Outcome = (Recorded & { readonly skipped?: boolean }) | NotPersisted;

async function recordWhenPossible(
  options: CrewCheckpointOptions,
  life: Life,
  step: number,
): Promise<Outcome | undefined> {
  const { crew, vnode, epoch, signal, world } = options;
  while (!signal.aborted) {
    if (crew.isPast(step)) return { kind: "accepted", told: toldBy(crew), skipped: true };
    if (crew.mayRecord(vnode, epoch())) {
      const outcome = await recordOnce(options, life, step);
      if (outcome !== "not now") return outcome;
    }
    await sleep(world.timers, lookMs, signal);
  }
  return undefined;
}

/** As long as an orchestrator is there: afterwards a newer checkpoint may do. */
async function recordOnce(options: CrewCheckpointOptions, life: Life, step: number): Promise<Outcome | "not now"> {
  const { crew, kept, session, vnode, world } = options;
  const found = kept.find(session, vnode, step);
  if (found === undefined) return "not now";
  const going = new AbortController();
  return untilEither([options.signal, going.signal], async (signal) => {
    void crew.untilAlone(signal).then(() => going.abort());
    try {
      const snapshot = await kept.snapshot(found);
      const hashes = life.hashes.filter((entry) => entry.step <= step);
      return await makeDurable(
        { ...options, signal },
        { step, turn: life.turn, steps: hashes, stating: undefined },
        snapshot,
      );
    } catch (error) {
      if (signal.aborted || crew.isPast(step)) return "not now";
      world.log("warn", `checkpoint of ${vnode} at step ${step}: ${messageOf(error)}`, { step });
      return notPersisted(step, error);
    } finally {
      going.abort();
    }
  });
}

/** Sessions that go on without orchestrators are not checked: nothing is drawn below their lines, nor are their rounds recorded. */
function toldBy({ line, turn }: SessionCrew): ToldLine {
  return { line, turn, drawn: [], rounds: [] };
}
