// What a hosted VNode does right now, in words: if it waits, for what, on whom and since when.

import type { VNodeId } from "../../core/ids.ts";
import type { Process, RoundNews } from "../../vnode/process.ts";

export type Phase = "loading" | "replaying" | "computing" | "waiting" | "done" | "failed";

export interface PhaseAndDetail {
  readonly phase: Phase;
  readonly detail: string;
  /** Those whose messages it needs to go on; empty unless it waits for some. */
  readonly waitsFor?: readonly VNodeId[];
  readonly waitedMs?: number;
}

export interface Circumstances {
  readonly waitedMs: number;
  readonly retentionFull: boolean;
  /** Why its checkpoint is not held yet, where something is wrong; else empty. */
  readonly checkpointTrouble: string;
  /** The PNode that hosts a VNode; empty if nobody is known. */
  readonly ownerOf: (vnode: VNodeId) => string;
}

const awaited: Readonly<Record<RoundNews, string>> = {
  plan: "for a plan of its round in which machines like this one compute it",
  closing: "until its round is closed",
  end: "for the end of a round in which its lane has no part",
};

export function phaseOf(process: Waiting, circumstances: Circumstances): PhaseAndDetail {
  if (process.ended === "done") return { phase: "done", detail: "" };
  if (!process.idle) return { phase: process.catchingUp ? "replaying" : "computing", detail: "" };
  const since = `since ${(circumstances.waitedMs / 1_000).toFixed(1)} s`;
  const waiting = (what: string): PhaseAndDetail => ({
    phase: "waiting",
    detail: `step ${process.currentStep}, ${what}`,
  });
  const missing = process.missing();
  const [first] = missing;
  if (first !== undefined) {
    const owner = circumstances.ownerOf(first.whom);
    return {
      ...waiting(`for ${first.whom} ${owner === "" ? "that nobody hosts" : `on PNode ${owner}`} ${since}`),
      waitsFor: [...new Set(missing.map(({ whom }) => whom))],
      waitedMs: circumstances.waitedMs,
    };
  }
  const { checkpointTrouble } = circumstances;
  const trouble = checkpointTrouble && `: ${checkpointTrouble}`;
  // A round is closed by what is stored at its end.
  if (process.awaits !== undefined) return waiting(`${awaited[process.awaits]} ${since}${trouble}`);
  if (circumstances.retentionFull)
    return waiting(`since retained messages have reached their bound, for a newer recovery line ${since}`);
  return waiting(`for its checkpoint ${since}${trouble}`);
}

type Waiting = Pick<Process<unknown, unknown>, "ended" | "idle" | "catchingUp" | "currentStep" | "missing" | "awaits">;
