// What a mutant is: one part of the system exchanged for a broken one. All of them are parts that production code is
// given; none of its own lines knows that it could be wrong.

import type { DescMethod } from "@bufbuild/protobuf";
import type { World } from "../../src/core/world.ts";
import type { CrewRules } from "../../src/crew/crew.ts";
import type { Executor } from "../../src/engine/engine.ts";
import type { BlobTransfer } from "../../src/pnode/options.ts";
import type { Room } from "../../src/pnode/room.ts";
import type { CheckServed } from "../../src/pnode/serving/serving-context.ts";
import type { CheckSession } from "../../src/pnode/session-context.ts";
import { PNodeService } from "../../src/protocol/gen/dcnr/v1/pnode_pb.ts";
import type { Network } from "../../src/protocol/network.ts";
import type { BlobStore } from "../../src/store/blobs/blob-store.ts";
import type { StateStore } from "../../src/store/records/state-store.ts";
import type { OpenProcess } from "../../src/vnode/process.ts";
import type { ViolationKind } from "../checks/checkers.ts";
import type { Records } from "../checks/records.ts";
import type { CrewAim } from "../crew-worlds.ts";
import type { AimedKind } from "../faults.ts";
import type { Behaviour } from "../lies/byzantine.ts";
import type { Mistake, Tamper } from "../world/network.ts";
import type { Host } from "../world/world.ts";

export interface Mutant {
  /** What is wrong with it, as a sentence. */
  readonly fault: string;
  /** What at least one of a few dozen seeds must show. */
  readonly shows: readonly ViolationKind[];
  /** For faults that show in rare worlds only; 100 otherwise. */
  readonly seedsMax?: number;
  /** Faults that lead worlds to the broken rule, where those that are drawn blindly rarely do. */
  readonly aims?: readonly AimedKind[];
  /** Its fault shows where sessions go on without orchestrators. */
  readonly autonomy?: boolean;
  /** Its fault shows where sessions have lanes. */
  readonly lanes?: boolean;
  /** Its fault shows where sessions change their numerics class, beside the same world without it. */
  readonly eras?: boolean;
  /** Its fault shows where lanes come and go on machines of several classes, beside what their records lead to. */
  readonly elastic?: boolean;
  /** Its fault shows in worlds in which this happens to a crew. */
  readonly crew?: CrewAim;
  /** Its fault shows where a PNode does not hear that it has to give VNodes away. */
  readonly toldNothing?: boolean;
  /** Its fault shows where machines are behind routers. */
  readonly routers?: boolean;
  /** Its fault shows where some machines lie. */
  readonly byzantine?: boolean;
  /** Its fault shows where a machine lies to those who ask a model. */
  readonly answers?: boolean;
  /** Its fault shows where machines behave like this; for those that are byzantine or about answers. */
  readonly behaviour?: Behaviour;
  /** And where this much is promised; everything is checked by strangers unless it says. */
  readonly assurance?: "checked" | "proven";
  /** Its fault shows where somebody speaks for others. */
  readonly liar?: boolean;
  /** The process of every VNode. */
  readonly process?: OpenProcess;
  readonly checkSession?: CheckSession;
  readonly checkServed?: CheckServed;
  /** How a PNode counts what it lends. */
  readonly room?: (world: World, lentBytes: number) => Room;
  /** What a crew decides by. */
  readonly crewRules?: Partial<CrewRules>;
  /** Where a PNode computes. */
  readonly executor?: (inner: Executor, host: Host) => Executor;
  /** How a PNode moves blobs. */
  readonly transfer?: (inner: BlobTransfer, host: Host) => BlobTransfer;
  /** How a PNode reaches others. */
  readonly network?: (inner: Network) => Network;
  /** What is said between processes. */
  readonly tamper?: (records: Records) => Tamper;
  /** Whom orchestrators and PNodes take their callers for. */
  readonly mistake?: (records: Records) => Mistake;
  readonly store?: (view: StateStore, records: Records, blobs: BlobStore) => StateStore;
  readonly blobs?: (view: BlobStore) => BlobStore;
}

/** A message whose fields are changed by name. */
export type Loose = Record<string, unknown>;

/** Changes the requests or responses of one method. */
export function onCall(method: DescMethod, side: "input" | "output", change: (message: Loose) => Loose): Tamper {
  return (message, called, at) => (called === method && at === side ? change(message as Loose) : message);
}

/** Changes one kind of event on the streams between orchestrators and PNodes. */
export function onEvent(name: string, change: (value: Loose) => Loose): Tamper {
  return (message, method) => {
    if (method !== PNodeService.method.attach) return message;
    const { event } = message as { event?: { case?: string; value?: Loose } };
    return event?.case === name && event.value
      ? { ...message, event: { case: name, value: change(event.value) } }
      : message;
  };
}

/** One after the other. */
export function both(first: Tamper, second: Tamper): Tamper {
  return (message, method, side) => second(first(message, method, side), method, side);
}

/** Changes records of one kind as they are written. */
export function rewriting<Value>(view: StateStore, kind: string, change: (record: Value) => object): StateStore {
  return {
    get: (key) => view.get(key),
    put: (key, value, expected) => {
      if (!key.startsWith(`${kind}/`)) return view.put(key, value, expected);
      return view.put(key, JSON.stringify(change(JSON.parse(value) as Value)), expected);
    },
    delete: (key, expected) => view.delete(key, expected),
    list: (prefix, options) => view.list(prefix, options),
    watch: (prefix, onHint) => view.watch(prefix, onHint),
    close: () => view.close(),
  };
}
