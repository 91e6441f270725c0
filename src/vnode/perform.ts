// Carries out those effects of a process that are numerics, and says by which event each of them ends.

import type { VNodeCompute } from "./compute.ts";
import type { ByPort, Effect, PortGradient, ProcessEvent } from "./effects.ts";
import type { Sealed } from "./names.ts";
import type { Role } from "./role.ts";
import type { WireTensor } from "./wire.ts";

/** How tensors are kept between being computed and being used. Whoever gets one holds it, and gives it back. */
export interface Keeping<Payload> {
  keep(tensor: WireTensor): Payload;
  /** The payload is used up. */
  take(payload: Payload): Promise<WireTensor>;
  /** The payload serves others too. */
  borrow(payload: Payload): Promise<WireTensor>;
}

const numericKinds = {
  forward: true,
  backward: true,
  shareWeights: true,
  computeTieGradients: true,
  reduceParts: true,
  reduceSum: true,
  outer: true,
  rest: true,
  update: true,
} as const;

export type Numeric<Payload> = Extract<Effect<Payload, never>, { readonly kind: keyof typeof numericKinds }>;

export function isNumeric<Payload, Asker>(effect: Effect<Payload, Asker>): effect is Numeric<Payload> {
  return Object.hasOwn(numericKinds, effect.kind);
}

export async function performNumeric<Payload>(
  compute: VNodeCompute,
  role: Role,
  keeping: Keeping<Payload>,
  effect: Numeric<Payload>,
): Promise<ProcessEvent<Payload, never>> {
  const { step } = effect;
  switch (effect.kind) {
    case "forward": {
      const { outputs, measures } = await compute.forward(effect, await loadInputs(effect.inputs, role, keeping));
      return { kind: "forwardDone", step, microbatch: effect.microbatch, outputs: keepAll(outputs, keeping), measures };
    }
    case "backward": {
      const pass = { step, microbatch: effect.microbatch, mode: "training" } as const;
      const { gradients } = await compute.backward(pass, await loadGradients(effect.gradients, keeping));
      return { kind: "backwardDone", step, microbatch: effect.microbatch, gradients: keepAll(gradients, keeping) };
    }
    case "shareWeights":
      return { kind: "weightsShared", step, weights: keepAll(await compute.shareWeights(step, role.tiesOut), keeping) };
    case "computeTieGradients":
      return { kind: "tieGradientsDone", step, gradients: keepAll(await compute.tieGradients(step), keeping) };
    case "reduceParts": {
      const parts = await compute.reduceParts(effect, await loadGradients(effect.ties, keeping));
      return { kind: "partsDone", step, parts: keepAll(parts, keeping) };
    }
    case "reduceSum": {
      const sum = await compute.reduceSum(effect, await loadGradients(effect.parts, keeping));
      return { kind: "sumDone", step, sum: { hash: "", payload: keeping.keep(sum) } };
    }
    case "outer": {
      const { hash } = await compute.outer(effect, await loadGradients(effect.sums, keeping));
      return { kind: "outerDone", step, hash };
    }
    case "rest":
      return { kind: "updateDone", step, hash: await compute.rest(step), measures: {} };
    case "update": {
      const [ties, sums] = [await loadGradients(effect.ties, keeping), await loadGradients(effect.sums, keeping)];
      const { hash, measures } = await compute.update(step, ties, sums);
      return { kind: "updateDone", step, hash, measures };
    }
  }
}

/** Its results are weights that others share, or their gradients. */
export function isOfTies({ kind }: { readonly kind: string }): boolean {
  return kind === "shareWeights" || kind === "computeTieGradients";
}

/** Tied weights serve all microbatches of a step; whatever else comes in is used once. */
async function loadInputs<Payload>(
  inputs: ByPort<Payload>,
  { tiesIn }: Role,
  keeping: Keeping<Payload>,
): Promise<ByPort<WireTensor>> {
  const loaded = new Map<string, WireTensor>();
  for (const [port, payload] of inputs) {
    const isTied = tiesIn.some(({ toPort }) => toPort === port);
    loaded.set(port, await (isTied ? keeping.borrow(payload) : keeping.take(payload)));
  }
  return loaded;
}

function loadGradients<Payload>(
  gradients: readonly PortGradient<Payload>[],
  keeping: Keeping<Payload>,
): Promise<PortGradient<WireTensor>[]> {
  return Promise.all(
    gradients.map(async ({ edge, port, payload }) => ({ edge, port, payload: await keeping.take(payload) })),
  );
}

/** A value for several receivers is kept once. */
function keepAll<Payload>(outputs: ByPort<WireTensor>, { keep }: Keeping<Payload>): Map<string, Sealed<Payload>> {
  const kept = new Map<WireTensor, Sealed<Payload>>();
  return new Map(
    [...outputs].map(([port, tensor]) => {
      const sealed = kept.get(tensor) ?? { hash: "", payload: keep(tensor) };
      kept.set(tensor, sealed);
      return [port, sealed];
    }),
  );
}
