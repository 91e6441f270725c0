// What a VNode hears: which messages a step needs from whom, what of it is still missing, and on which edges
// it has to ask because they were used before it listened.

import type { VNodeId } from "../core/ids.ts";
import type { PlanEdge } from "../network/plan.ts";
import type { PortGradient } from "./effects.ts";
import type { Inbox } from "./inbox.ts";
import { type Direction, type MessageName, wholeStep } from "./names.ts";
import type { Role } from "./role.ts";
import type { StepWork } from "./step-work.ts";

interface Source {
  readonly key: string;
  readonly whom: VNodeId;
  readonly edge: PlanEdge;
  readonly direction: Direction;
}

export interface Missing {
  readonly whom: VNodeId;
  /** Of the edge and direction on which they come. */
  readonly key: string;
  readonly names: readonly MessageName[];
}

export function sourceKey(name: { readonly edge: string; readonly direction: Direction }): string {
  return `${name.direction}/${name.edge}`;
}

export class Listening<Payload> {
  readonly #role: Role;
  readonly #inbox: Inbox<Payload>;
  readonly #sources: readonly Source[];
  /** Edges whose messages were sent before we listened, or were told to wait: they are asked for at once. */
  readonly pulled: Set<string>;

  constructor(role: Role, inbox: Inbox<Payload>) {
    this.#role = role;
    this.#inbox = inbox;
    const source = (edge: PlanEdge, direction: Direction): Source => {
      const whom = direction === "forward" ? edge.from : edge.to;
      return { key: sourceKey({ edge: edge.id, direction }), whom, edge, direction };
    };
    const backward = [...role.activationsOut, ...role.tiesOut, ...role.reducesOut].filter((edge) => edge.gradient);
    this.#sources = [
      ...[...role.tiesIn, ...role.activationsIn, ...role.reducesIn].map((edge) => source(edge, "forward")),
      ...backward.map((edge) => source(edge, "backward")),
    ];
    this.pulled = new Set(this.#sources.map(({ key }) => key));
  }

  /** Names of the step that are still to come, by who sends them. */
  missing(work: StepWork): Missing[] {
    return this.#sources.flatMap(({ key, whom, edge, direction }) => {
      const names = work
        .microbatchesNeeded(edge, direction)
        .map((microbatch) => ({ step: work.step, microbatch, edge: edge.id, direction }))
        .filter((name) => this.#inbox.admit(name, "", work.step) === "wanted");
      return names.length === 0 ? [] : [{ whom, key, names }];
    });
  }

  /** All inputs of a forward pass by port, or undefined while one of them is missing. */
  takeInputs(step: number, microbatch: number): Map<string, Payload> | undefined {
    const edges = [...this.#role.activationsIn, ...this.#role.tiesIn];
    const name = (edge: PlanEdge) => forwardName(edge, step, edge.kind === "tie" ? wholeStep : microbatch);
    if (!edges.every((edge) => this.#inbox.has(name(edge)))) return undefined;
    const inputs = new Map<string, Payload>();
    for (const edge of edges) {
      const payload = edge.kind === "tie" ? this.#inbox.peek(name(edge)) : this.#inbox.take(name(edge));
      inputs.set(edge.toPort, payload as Payload);
    }
    return inputs;
  }

  /** Gradients that came back on `edges`, in their order, or undefined while one of them is missing. */
  takeGradients(edges: readonly PlanEdge[], step: number, microbatch: number): PortGradient<Payload>[] | undefined {
    const named = edges
      .filter((edge) => edge.gradient)
      .map((edge) => ({ edge, name: { step, microbatch, edge: edge.id, direction: "backward" as const } }));
    if (!named.every(({ name }) => this.#inbox.has(name))) return undefined;
    return named.map(({ edge, name }) => ({
      edge: edge.id,
      port: edge.fromPort,
      payload: this.#inbox.take(name) as Payload,
    }));
  }

  /** Other copies' parts of the shard that is added up here, in lane order, or undefined while one of them is missing. */
  takeParts(edges: readonly PlanEdge[], step: number): PortGradient<Payload>[] | undefined {
    const named = edges.map((edge) => ({ edge, name: forwardName(edge, step, wholeStep) }));
    if (!named.every(({ name }) => this.#inbox.has(name))) return undefined;
    return named.map(({ edge, name }) => ({
      ...{ edge: edge.id, port: edge.toPort },
      payload: this.#inbox.take(name) as Payload,
    }));
  }

  /** Borrowed weights of a step that is over. */
  dropTies(step: number): Payload[] {
    return this.#role.tiesIn.flatMap((edge) => this.#inbox.take(forwardName(edge, step, wholeStep)) ?? []);
  }
}

function forwardName(edge: PlanEdge, step: number, microbatch: number): MessageName {
  return { step, microbatch, edge: edge.id, direction: "forward" };
}
