// Metrics as orchestrators know them, from what a process published.

import type { Measures } from "../../vnode/effects.ts";
import type { Metric } from "../reports.ts";
import type { Sender } from "./exchange.ts";

export function publishedMetrics({ session, vnode }: Sender, step: number, measures: Measures): Metric[] {
  return Object.entries(measures).map(([name, value]) => ({ name, step: BigInt(step), value, vnode, session }));
}

/** Counts become an accuracy; the loss is named as one of validation. */
export function evaluationMetrics(
  { session, vnode }: Sender,
  { step, measures }: { step: number; measures: Measures },
): Metric[] {
  const { loss, correct, counted } = measures;
  const metrics: Metric[] = [];
  const add = (name: string, value: number) => metrics.push({ name, step: BigInt(step), value, vnode, session });
  if (loss !== undefined) add("validation_loss", loss);
  if (correct !== undefined && counted !== undefined && counted > 0) add("validation_accuracy", correct / counted);
  return metrics;
}
