// One sentence about how things are, and the reasons behind it: the most important first.

import { capital, plural, rate } from "../format.ts";
import type { State } from "./store.ts";
import type { WaitView } from "./views.ts";

export interface Summary {
  readonly tone: "calm" | "wait" | "bad";
  readonly text: string;
  /** Everything else that waits or is wrong. */
  readonly more: readonly string[];
}

export function summaryOf(state: State): Summary {
  const problems = state.problems.map((problem) => named(problem, state));
  const waits = state.waits.map(waitText);
  const reasons = [...problems, ...waits];
  const [text, ...more] = reasons;
  if (text !== undefined) return { tone: problems.length > 0 ? "bad" : "wait", text: capital(text), more };
  return { tone: "calm", text: calmText(state), more: [] };
}

/** The orchestrator says it whole, with names and times. */
function waitText({ sentence, remedy }: WaitView): string {
  return remedy ? `${sentence}. What you can do: ${remedy}` : sentence;
}

/** Sentences of the orchestrator name PNodes by id; people know them by name. */
export function named(sentence: string, { names }: Pick<State, "names">): string {
  return sentence.replace(/[\w.-]{8,}/g, (word) => names.get(word) ?? word);
}

function calmText(state: State): string {
  if (!state.known) return "Looking for the orchestrator …";
  const running = Array.from(state.sessions.values()).filter((session) => session.status === "running");
  if (running.length > 0) {
    const speed = running.reduce((sum, session) => sum + session.samplesPerSecond, 0);
    const vnodes = running.reduce((sum, session) => sum + session.vnodes, 0);
    const rateText = speed > 0 ? `, ${rate(speed)} samples/s` : "";
    return `Training: ${plural(vnodes, "VNode")} on ${plural(state.totals.pnodesOnline, "PNode")}${rateText}. Nothing waits.`;
  }
  if (state.totals.pnodesOnline === 0) return "No PNode has joined yet.";
  return `${plural(state.totals.pnodesOnline, "PNode")} ready. Nothing runs, nothing waits.`;
}
