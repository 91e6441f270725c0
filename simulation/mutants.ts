// Deliberate protocol faults, one at a time, each breaking one rule on which the promise rests. They show that
// the checkers can see: a simulator that finds nothing in these would find nothing in a real bug either.
// Production code knows none of them: they switch off a named rule or wrap what is passed in.

import type { DescMethod } from "@bufbuild/protobuf";
import { hasCode } from "../src/core/errors.ts";
import type { Sha256 } from "../src/core/ids.ts";
import type { SessionRecord, VNodeRecord } from "../src/orchestrator/records/records.ts";
import type { ShellRules } from "../src/pnode/options.ts";
import { ExchangeService } from "../src/protocol/gen/dcnr/v1/exchange_pb.ts";
import { PNodeService } from "../src/protocol/gen/dcnr/v1/pnode_pb.ts";
import type { BlobStore } from "../src/store/blob-store.ts";
import type { StateStore } from "../src/store/state-store.ts";
import type { Rules } from "../src/vnode/rules.ts";
import type { ViolationKind } from "./checkers.ts";
import type { Tamper } from "./network.ts";
import type { SimulatedStore } from "./store.ts";

export interface Mutant {
  /** What is wrong with it, as a sentence. */
  readonly fault: string;
  /** What at least one of a few dozen seeds must show. */
  readonly shows: readonly ViolationKind[];
  /** For faults that show in rare worlds only; 100 otherwise. */
  readonly seedsMax?: number;
  /** Rules of the VNode's process that are off. */
  readonly rules?: Partial<Rules>;
  /** Rules of the PNode around it that are off. */
  readonly shell?: Partial<ShellRules>;
  readonly tamper?: (records: Records) => Tamper;
  readonly store?: (view: StateStore, records: Records) => StateStore;
  readonly blobs?: (view: BlobStore) => BlobStore;
}

/** The store's records as of now, without waiting. */
export class Records {
  readonly #values = new Map<string, object>();

  constructor(store: SimulatedStore) {
    store.onWrite(({ key, after }) => {
      if (after === undefined) this.#values.delete(key);
      else this.#values.set(key, JSON.parse(after) as object);
    });
  }

  vnode(session: string, vnode: string): VNodeRecord | undefined {
    return this.#values.get(`vnode/${session}/${vnode}`) as VNodeRecord | undefined;
  }

  /** The checkpoints that records name now. */
  checkpoints(): Sha256[] {
    return this.#vnodes().flatMap(({ durable }) => Object.values(durable).map(({ hash }) => hash));
  }

  /** PNodes that own something. */
  owners(): string[] {
    return [...new Set(this.#vnodes().flatMap(({ members }) => members.map(({ pnode }) => pnode)))].sort();
  }

  #vnodes(): VNodeRecord[] {
    return [...this.#values].flatMap(([key, value]) => (key.startsWith("vnode/") ? [value as VNodeRecord] : []));
  }

  session(id: string): SessionRecord | undefined {
    return this.#values.get(`session/${id}`) as SessionRecord | undefined;
  }
}

type Loose = Record<string, unknown>;

export const mutants: Readonly<Record<string, Mutant>> = {
  "consumes-duplicates": {
    fault: "a gradient that arrives twice is added twice",
    shows: ["divergence", "error"],
    seedsMax: 300,
    rules: { storeOnce: false },
  },
  "adds-in-order-of-arrival": {
    fault: "gradients are added in the order in which they are ready",
    shows: ["divergence"],
    rules: { accumulateInOrder: false },
  },
  "updates-before-ties": {
    fault: "the update does not wait for the gradient of tied weights",
    shows: ["divergence"],
    rules: { awaitTies: false },
  },
  "updates-before-evaluation": {
    fault: "weights change while they are being evaluated",
    shows: ["divergence"],
    rules: { awaitEvaluation: false },
  },
  "forgets-after-the-step": {
    fault: "what was sent is kept for the current step only",
    shows: ["hang"],
    rules: { retainFromLine: false },
  },
  "never-asks": {
    fault: "a missing message is waited for, never asked for",
    shows: ["hang"],
    rules: { ask: false },
  },
  "never-admits-gone": {
    fault: "an ask for what was collected is answered with 'coming'",
    shows: ["hang"],
    seedsMax: 300,
    rules: { admitGone: false },
  },
  "stays-when-fenced": {
    fault: "a PNode whose record was refused goes on with the VNode",
    shows: ["fence"],
    seedsMax: 300,
    shell: { stopWhenFenced: false },
  },
  "records-before-upload": {
    fault: "a checkpoint is recorded before its bytes are stored",
    shows: ["hang", "error"],
    shell: { uploadBeforeRecord: false },
  },
  "copies-too-late": {
    fault: "the state is copied for its checkpoint after the next update has begun",
    shows: ["divergence", "durable"],
    shell: { snapshotAtOnce: false },
  },
  "no-fence": {
    fault: "a checkpoint is accepted from whoever brings it",
    shows: ["fence"],
    seedsMax: 300,
    tamper: (records) =>
      onCall(PNodeService.method.recordDurable, "input", (request) => {
        const record = records.vnode(String(request["session"]), String(request["vnode"]));
        const owner = record?.members[0];
        return owner === undefined ? request : { ...request, pnode: owner.pnode, epoch: BigInt(record?.epoch ?? 0) };
      }),
  },
  "epoch-stands-still": {
    fault: "a VNode changes hands without a new epoch",
    shows: ["fence"],
    store: (view, records) =>
      rewriting(view, "vnode", (record: VNodeRecord) => {
        const before = records.vnode(record.session, record.vnode);
        if (before === undefined || before.members.length === 0) return record;
        return {
          ...record,
          epoch: before.epoch,
          members: record.members.map((one) => ({ ...one, since: before.epoch })),
        };
      }),
  },
  "line-is-the-newest-anywhere": {
    fault: "the recovery line is the newest step that any VNode has stored",
    shows: ["line", "hang"],
    store: (view, records) =>
      rewriting(view, "session", (session: SessionRecord) => {
        const steps = session.vnodes.flatMap((id) => Object.keys(records.vnode(session.id, id)?.durable ?? {}));
        return { ...session, line: Math.max(session.line, ...steps.map(Number)) };
      }),
  },
  "never-goes-back": {
    fault: "PNodes do not hear that the session went back to an earlier line",
    shows: ["hang"],
    seedsMax: 300,
    tamper: () =>
      onEvent("assignments", (value) => ({
        ...value,
        assignments: (value["assignments"] as Loose[]).map((assignment) => ({ ...assignment, turn: 0n })),
      })),
  },
  "hides-who-is-out-of-reach": {
    fault: "heartbeats do not tell whom a PNode calls in vain",
    shows: ["hang"],
    seedsMax: 300,
    tamper: () => onEvent("heartbeat", (value) => ({ ...value, links: [] })),
  },
  "believes-damaged-tensors": {
    fault: "a bit flips on the way and nobody compares the hash",
    shows: ["divergence"],
    shell: { verifyHash: false },
    tamper: () => flippingBits(),
  },
  "shuffles-alone": {
    fault: "each PNode is told another order of samples",
    // PNodes compare what they are told with the session's id, so the session fails before its bits do.
    shows: ["error"],
    tamper: () => ownSeeds(),
  },
  "collects-above-the-line": {
    fault: "PNodes are told a line that is one checkpoint ahead",
    shows: ["hang"],
    tamper: (records) =>
      onEvent("session", (update) => {
        const ahead = records.session(String(update["session"]))?.policy.checkpointEvery ?? 0;
        return { ...update, line: BigInt(Number(update["line"]) + ahead) };
      }),
  },
  "restarts-at-its-own-newest": {
    fault: "a new owner starts at the VNode's own newest checkpoint instead of the line",
    shows: ["hang"],
    tamper: (records) =>
      onEvent("assignments", (value) => ({
        ...value,
        assignments: (value["assignments"] as Loose[]).map((assignment) => {
          const durable = records.vnode(String(assignment["session"]), String(assignment["vnode"]))?.durable ?? {};
          const newest = Math.max(Number(assignment["line"]), ...Object.keys(durable).map(Number));
          return { ...assignment, line: BigInt(newest), state: durable[String(newest)]?.hash ?? assignment["state"] };
        }),
      })),
  },
  "overwrites-durable-states": {
    fault: "a newer checkpoint's hash is written over an older one's",
    shows: ["durable"],
    store: (view, records) =>
      rewriting(view, "vnode", (record: VNodeRecord) => {
        const known = Object.keys(records.vnode(record.session, record.vnode)?.durable ?? {});
        const added = Object.keys(record.durable).find((step) => !known.includes(step));
        const victim = known.at(-1);
        if (added === undefined || victim === undefined || record.durable[victim] === undefined) return record;
        return { ...record, durable: { ...record.durable, [victim]: record.durable[added] as never } };
      }),
  },
  "retries-blindly": {
    fault: "a write whose reply was lost is written again over whatever stands there now",
    shows: ["fence", "durable", "line", "divergence", "hang"],
    store: blindRetries,
  },
  "acknowledges-before-storing": {
    fault: "the blob store says 'stored' and loses every third blob",
    shows: ["hang", "error"],
    blobs: losingBlobs,
  },
};

/** Changes the requests or responses of one method. */
function onCall(method: DescMethod, side: "input" | "output", change: (message: Loose) => Loose): Tamper {
  return (message, called, at) => (called === method && at === side ? change(message as Loose) : message);
}

/** Changes one kind of event on the streams between orchestrators and PNodes. */
function onEvent(name: string, change: (value: Loose) => Loose): Tamper {
  return (message, method) => {
    if (method !== PNodeService.method.attach) return message;
    const { event } = message as { event?: { case?: string; value?: Loose } };
    return event?.case === name && event.value
      ? { ...message, event: { case: name, value: change(event.value) } }
      : message;
  };
}

/** Flips the lowest bit of every twentieth small tensor. */
function flippingBits(): Tamper {
  let count = 0;
  return (message, method, side) => {
    if (method !== ExchangeService.method.exchange || side !== "input") return message;
    const { event } = message as { event?: { case?: string; value?: { data?: Uint8Array } } };
    const data = event?.case === "delivery" ? event.value?.data : undefined;
    if (data === undefined || data.byteLength === 0 || ++count % 20 !== 0) return message;
    const flipped = data.slice();
    flipped[0] = (flipped[0] as number) ^ 1;
    return { ...message, event: { ...event, value: { ...event?.value, data: flipped } } };
  };
}

function ownSeeds(): Tamper {
  let count = 0;
  return onCall(PNodeService.method.describeSession, "output", (answer) => {
    const settings = JSON.parse(String(answer["settings"])) as { identity: { seed: number } };
    const identity = { ...settings.identity, seed: settings.identity.seed + count++ };
    return { ...answer, settings: JSON.stringify({ ...settings, identity }) };
  });
}

/** Changes records of one kind as they are written. */
function rewriting<Value>(view: StateStore, kind: string, change: (record: Value) => object): StateStore {
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

function blindRetries(view: StateStore): StateStore {
  const inner = rewriting(view, "nothing", (record: object) => record);
  return {
    ...inner,
    put: async (key, value, expected) => {
      try {
        return await view.put(key, value, expected);
      } catch (error) {
        if (!hasCode(error, "unavailable")) throw error;
        const current = await view.get(key);
        return view.put(key, value, current?.version ?? 0);
      }
    },
  };
}

function losingBlobs(view: BlobStore): BlobStore {
  let count = 0;
  const lost = new Map<string, number>();
  return {
    ...(view.tokens ? { tokens: view.tokens } : {}),
    put: async (hash, content, bytes) => {
      count += 1;
      if (count % 3 === 0) {
        lost.set(hash, bytes);
        return;
      }
      await view.put(hash, content, bytes);
    },
    get: (hash, range) => view.get(hash, range),
    stream: (hash) => view.stream(hash),
    size: async (hash) => lost.get(hash) ?? view.size(hash),
    delete: (hash) => view.delete(hash),
    list: () => view.list(),
    grant: (action, hash, bytes, lifetimeMs) => view.grant(action, hash, bytes, lifetimeMs),
    close: () => view.close(),
  };
}
