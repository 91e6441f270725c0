// Processes of a VNode that break one rule of exact replay each: production processes with one part exchanged, or with
// what they say changed on the way out.

import type { PlanEdge } from "../../src/network/plan.ts";
import type { Effect, PortGradient, ProcessEvent } from "../../src/vnode/effects.ts";
import type { Inbox } from "../../src/vnode/inbox.ts";
import { Listening } from "../../src/vnode/listening.ts";
import { type MessageName, wholeStep } from "../../src/vnode/names.ts";
import { Outbox, type Outgoing, type Retained } from "../../src/vnode/outbox.ts";
import {
  type OpenProcess,
  openProcess,
  type ProcessOptions,
  type ProcessParts,
  type VNodeProcess,
} from "../../src/vnode/process.ts";
import type { Role } from "../../src/vnode/role.ts";
import { StepWork } from "../../src/vnode/step-work.ts";

/** With one part exchanged. */
function withPart(parts: Partial<ProcessParts>): OpenProcess {
  return (options) => openProcess({ ...options, parts });
}

type Step<Payload, Asker> = VNodeProcess<Payload, Asker>["step"];

/** With other effects of the same events. */
function withStep(
  change: <Payload, Asker>(inner: VNodeProcess<Payload, Asker>, options: ProcessOptions) => Step<Payload, Asker>,
): OpenProcess {
  return <Payload, Asker>(options: ProcessOptions) => {
    const inner = openProcess<Payload, Asker>(options);
    return around(inner, { step: change(inner, options) });
  };
}

function around<Payload, Asker>(
  inner: VNodeProcess<Payload, Asker>,
  changes: Partial<Pick<VNodeProcess<Payload, Asker>, "step" | "missing">>,
): VNodeProcess<Payload, Asker> {
  return {
    get currentStep() {
      return inner.currentStep;
    },
    get line() {
      return inner.line;
    },
    get ended() {
      return inner.ended;
    },
    get idle() {
      return inner.idle;
    },
    get catchingUp() {
      return inner.catchingUp;
    },
    get awaits() {
      return inner.awaits;
    },
    admit: (name, hash) => inner.admit(name, hash),
    outerShape: (edge, step) => inner.outerShape(edge, step),
    missing: () => inner.missing(),
    payloads: () => inner.payloads(),
    step: (event) => inner.step(event),
    ...changes,
  };
}

export const addsDuplicates = withStep((inner) => {
  const added = new Set<number>();
  return (event) => {
    const isAgain =
      event.kind === "arrived" &&
      event.name.direction === "backward" &&
      event.name.step === inner.currentStep &&
      added.has(event.name.microbatch) &&
      inner.admit(event.name, event.hash) === "duplicate";
    const effects = inner.step(event);
    for (const effect of effects) {
      if (effect.kind === "accumulate") added.add(effect.microbatch);
      if (effect.kind === "publish") added.clear();
    }
    if (!isAgain) return effects;
    const { step, microbatch } = event.name;
    return [...effects, { kind: "accumulate", step, microbatch }];
  };
});

export const addsInOrderOfArrival = withStep((inner) => (event) => {
  const effects = inner.step(event).filter(({ kind }) => kind !== "accumulate");
  if (event.kind !== "backwardDone") return effects;
  const { step, microbatch } = event;
  return [{ kind: "accumulate", step, microbatch }, ...effects];
});

class ListeningWithoutTies<Payload> extends Listening<Payload> {
  override takeGradients(
    edges: readonly PlanEdge[],
    step: number,
    microbatch: number,
  ): PortGradient<Payload>[] | undefined {
    const taken = super.takeGradients(edges, step, microbatch);
    return taken ?? (microbatch === wholeStep ? [] : undefined);
  }
}

export const updatesBeforeTies = withPart({ openListening: (role, inbox) => new ListeningWithoutTies(role, inbox) });

class WorkWithoutEvaluation extends StepWork {
  readonly #isLast: boolean;

  constructor(...[schedule, step, role, book]: ConstructorParameters<typeof StepWork>) {
    super(schedule, step, role, book);
    this.#isLast = step === schedule.steps;
  }

  override get evaluationDone(): boolean {
    return !this.#isLast || super.evaluationDone;
  }
}

export const updatesBeforeEvaluation = withPart({
  openWork: (schedule, step, role, book) => new WorkWithoutEvaluation(schedule, step, role, book),
});

class ForgetfulOutbox<Payload> extends Outbox<Payload> {
  #newest = 0;

  override retain(message: Outgoing<Payload>): void {
    this.#newest = Math.max(this.#newest, message.name.step);
    super.retain(message);
  }

  override find(name: MessageName): Retained<Payload> {
    return name.step < this.#newest ? { kind: "gone" } : super.find(name);
  }
}

export const forgetsAfterTheStep = withPart({ openOutbox: (line) => new ForgetfulOutbox(line) });

export const neverAsks: OpenProcess = <Payload, Asker>(options: ProcessOptions) => {
  const inner = openProcess<Payload, Asker>(options);
  return around(inner, {
    step: (event) => inner.step(event).filter(({ kind }) => kind !== "ask"),
    missing: () => [],
  });
};

export const neverAdmitsGone = withStep(
  (inner) => (event) =>
    inner.step(event).map((effect) => (effect.kind === "answer" ? { ...effect, outcome: "coming" } : effect)),
);

/** What is to be stored is held back until the next update has changed the weights. */
export const copiesTooLate = withStep(
  <Payload, Asker>(inner: VNodeProcess<Payload, Asker>, options: ProcessOptions) => {
    let held: Effect<Payload, Asker> | undefined;
    return (event: ProcessEvent<Payload, Asker>) => {
      const effects: Effect<Payload, Asker>[] = [];
      for (const effect of inner.step(event)) {
        if (effect.kind === "persist" && effect.step < options.schedule.steps) held = effect;
        else effects.push(effect);
        if (effect.kind !== "publish" || held?.kind !== "persist" || held.step >= effect.step) continue;
        effects.push(held);
        held = undefined;
      }
      return effects;
    };
  },
);

/** An asker gets what was sent for the first microbatch, under the name of what it asked for. */
export const deliversAnother = withStep(<Payload, Asker>(inner: VNodeProcess<Payload, Asker>) => {
  const first = new Map<string, Outgoing<Payload>>();
  return (event: ProcessEvent<Payload, Asker>) =>
    inner.step(event).map((effect) => {
      if (effect.kind !== "send" && effect.kind !== "deliver") return effect;
      const { message } = effect;
      const key = `${message.name.direction} ${message.name.edge}`;
      if (effect.kind === "send" && message.name.microbatch === 0) first.set(key, message);
      const other = first.get(key);
      if (effect.kind === "send" || other === undefined || message.name.microbatch <= 0) return effect;
      return { ...effect, message: { ...message, hash: other.hash, payload: other.payload } };
    });
});

class ListeningByArrival<Payload> extends Listening<Payload> {
  readonly #inbox: Inbox<Payload>;

  constructor(role: Role, inbox: Inbox<Payload>) {
    super(role, inbox);
    this.#inbox = inbox;
  }

  override takeParts(edges: readonly PlanEdge[], step: number): PortGradient<Payload>[] | undefined {
    const arrived = this.#inbox.payloads();
    const parts = super.takeParts(edges, step);
    const inOrder = parts?.toSorted((a, b) => arrived.indexOf(a.payload) - arrived.indexOf(b.payload));
    return parts?.map((part, i) => ({ ...part, payload: (inOrder?.[i] ?? part).payload }));
  }
}

export const addsLanesByArrival = withPart({ openListening: (role, inbox) => new ListeningByArrival(role, inbox) });

/** The first other lane's part is added in the place of every lane's. */
class ListeningTwice<Payload> extends Listening<Payload> {
  override takeParts(edges: readonly PlanEdge[], step: number): PortGradient<Payload>[] | undefined {
    const parts = super.takeParts(edges, step);
    return parts?.map((part) => ({ ...part, port: edges[0]?.toPort ?? part.port }));
  }
}

export const addsALaneTwice = withPart({ openListening: (role, inbox) => new ListeningTwice(role, inbox) });

/** The update takes those sums that are there. */
class ListeningWithoutSums<Payload> extends Listening<Payload> {
  override takeGradients(
    edges: readonly PlanEdge[],
    step: number,
    microbatch: number,
  ): PortGradient<Payload>[] | undefined {
    const isOfLanes = edges.some(({ kind }) => kind === "reduce" || kind === "outer");
    return super.takeGradients(edges, step, microbatch) ?? (isOfLanes ? [] : undefined);
  }
}

export const updatesBeforeSums = withPart({ openListening: (role, inbox) => new ListeningWithoutSums(role, inbox) });

/** The last gradient of a step that has several is left out. */
export const losesAGradient = withStep((inner, { schedule }) => (event) => {
  const last = schedule.microbatches - 1;
  return inner
    .step(event)
    .filter((effect) => last === 0 || effect.kind !== "accumulate" || effect.microbatch !== last || effect.step !== 3);
});
