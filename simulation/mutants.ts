// Deliberate protocol faults, one at a time, each breaking one rule on which the promise rests. They show that
// the checkers can see: a simulator that finds nothing in these would find nothing in a real bug either.
// Production code knows none of them: each is a broken part in the place of a sound one (mutants/).

import { answerBits, bits } from "../src/core/bits.ts";
import type { KeyId } from "../src/core/ids.ts";
import type { Block, Work } from "../src/orchestrator/ledger/block.ts";
import type { RoomRecord } from "../src/orchestrator/records/machines.ts";
import type { SessionRecord } from "../src/orchestrator/records/sessions.ts";
import type { StepRecord, VNodeRecord } from "../src/orchestrator/records/vnodes.ts";
import { Room } from "../src/pnode/room.ts";
import { ExchangeService } from "../src/protocol/gen/dcnr/v1/exchange_pb.ts";
import { InferenceService } from "../src/protocol/gen/dcnr/v1/inference_pb.ts";
import { PNodeService, type RecordDurableRequest } from "../src/protocol/gen/dcnr/v1/pnode_pb.ts";
import { ServingService } from "../src/protocol/gen/dcnr/v1/serving_pb.ts";
import { usualClass } from "./draw.ts";
import { liarName } from "./lies/liar-name.ts";
import { answerMutants } from "./mutants/answers.ts";
import { crewMutants } from "./mutants/crews.ts";
import { eraMutants } from "./mutants/eras.ts";
import { type Loose, type Mutant, onCall, onEvent, rewriting } from "./mutants/mutant.ts";
import { answersItself, ownAddressesOnly, waitsAtRelaysOnce } from "./mutants/networks.ts";
import * as processes from "./mutants/processes.ts";
import { roundMutants } from "./mutants/rounds.ts";
import { checkingAllBut } from "./mutants/sessions.ts";
import { blindRetries, collectingTooMuch, losingBlobs, uploadsNothing } from "./mutants/stores.ts";
import { firstPlaces, flippingBits, inTheFirstTurn, ownDefinitions, ownSeeds, registering } from "./mutants/tampers.ts";
import { trustMutants } from "./mutants/trust.ts";
import { nudging } from "./world/executor.ts";

class HoardedRoom extends Room {
  override giveBack(): void {}
}

/** Changes what a settlement says it pays for. */
function onWork(block: Block, change: (work: Work) => Work): Block {
  const { transfer } = block;
  return transfer.kind === "settle" ? { ...block, transfer: { ...transfer, work: transfer.work.map(change) } } : block;
}

export const mutants: Readonly<Record<string, Mutant>> = {
  ...crewMutants,
  ...eraMutants,
  ...roundMutants,
  ...answerMutants,
  ...trustMutants,
  "consumes-duplicates": {
    fault: "a gradient that arrives twice is added twice",
    shows: ["divergence", "error"],
    seedsMax: 300,
    process: processes.addsDuplicates,
  },
  "adds-in-order-of-arrival": {
    fault: "gradients are added in the order in which they are ready",
    shows: ["divergence"],
    process: processes.addsInOrderOfArrival,
  },
  "updates-before-ties": {
    fault: "the update does not wait for the gradient of tied weights",
    shows: ["divergence"],
    process: processes.updatesBeforeTies,
  },
  "adds-lanes-by-arrival": {
    fault: "the parts of lanes are added in the order in which they arrive",
    shows: ["divergence", "error"],
    lanes: true,
    process: processes.addsLanesByArrival,
  },
  "adds-a-lane-twice": {
    fault: "one lane's part is taken for every other's",
    shows: ["divergence", "error"],
    lanes: true,
    process: processes.addsALaneTwice,
  },
  "updates-before-sums": {
    fault: "the update does not wait for what other lanes have added up",
    shows: ["divergence", "durable", "error"],
    lanes: true,
    process: processes.updatesBeforeSums,
  },
  "updates-before-evaluation": {
    fault: "weights change while they are being evaluated",
    shows: ["divergence"],
    process: processes.updatesBeforeEvaluation,
  },
  "forgets-after-the-step": {
    fault: "what was sent is kept for the current step only",
    shows: ["hang"],
    process: processes.forgetsAfterTheStep,
  },
  "never-asks": {
    fault: "a missing message is waited for, never asked for",
    shows: ["hang"],
    process: processes.neverAsks,
  },
  "never-admits-gone": {
    fault: "an ask for what was collected is answered with 'coming'",
    shows: ["hang"],
    seedsMax: 300,
    aims: ["line lost", "cut off", "deaf"],
    process: processes.neverAdmitsGone,
  },
  "believes-in-hanging-links": {
    fault: "a link is taken for well whatever becomes of what is written to it",
    shows: ["hang", "answer"],
    seedsMax: 300,
    network: answersItself,
  },
  "knows-no-relays": {
    fault: "PNodes call each other at their own addresses alone",
    shows: ["hang", "answer"],
    routers: true,
    network: ownAddressesOnly,
  },
  "waits-at-relays-once": {
    fault: "a PNode does not wait again at a relay that has crashed and come back",
    shows: ["hang", "answer"],
    seedsMax: 300,
    routers: true,
    network: waitsAtRelaysOnce,
  },
  "stays-when-fenced": {
    fault: "a PNode does not hear that its record was refused and goes on with the VNode",
    shows: ["fence"],
    toldNothing: true,
    tamper: () => onCall(PNodeService.method.recordDurable, "output", (answer) => ({ ...answer, accepted: true })),
  },
  "records-before-upload": {
    fault: "a checkpoint is recorded whose bytes were never sent",
    shows: ["hang", "error"],
    transfer: uploadsNothing,
  },
  "copies-too-late": {
    fault: "the state is copied for its checkpoint after the next update has begun",
    shows: ["divergence", "durable"],
    process: processes.copiesTooLate,
  },
  "no-fence": {
    fault: "a checkpoint is accepted from whoever brings it",
    shows: ["fence"],
    seedsMax: 300,
    tamper: (records) =>
      onCall(PNodeService.method.recordDurable, "input", (request) => {
        const record = records.vnode(String(request["session"]), String(request["vnode"]));
        return record?.members[0] === undefined ? request : { ...request, epoch: BigInt(record.epoch) };
      }),
    mistake: (records) => (caller, method, request) => {
      if (method !== PNodeService.method.recordDurable) return caller;
      const { session, vnode } = request as RecordDurableRequest;
      const owner = records.vnode(session, vnode)?.members[0]?.pnode as string | undefined;
      return owner === undefined ? caller : { ...caller, id: owner as KeyId };
    },
  },
  "believes-senders": {
    fault: "a PNode takes whoever sends a tensor for its owner",
    shows: ["fence"],
    liar: true,
    mistake: (records) => (caller, method) =>
      method === ExchangeService.method.exchange && caller.address === liarName
        ? { ...caller, id: records.pretended as KeyId }
        : caller,
  },
  "believes-askers": {
    fault: "an orchestrator takes whoever asks for a blob for the owner of the VNode that it belongs to",
    shows: ["fence"],
    liar: true,
    mistake: (records) => (caller, method) =>
      method === PNodeService.method.grantBlob && caller.address === liarName && records.pretended !== ""
        ? { ...caller, id: records.pretended as KeyId }
        : caller,
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
    aims: ["line lost"],
    tamper: () =>
      onEvent("assignments", (value) => ({
        ...value,
        assignments: (value["assignments"] as Loose[]).map(inTheFirstTurn),
      })),
  },
  "hides-who-is-out-of-reach": {
    fault: "heartbeats do not tell whom a PNode calls in vain",
    shows: ["hang", "answer"],
    seedsMax: 300,
    tamper: () => onEvent("heartbeat", (value) => ({ ...value, links: [] })),
  },
  "believes-damaged-tensors": {
    fault: "a bit flips on the way and the hash fits all the same",
    shows: ["divergence"],
    tamper: () => flippingBits(),
  },
  "shuffles-alone": {
    fault: "each PNode is told another seed and nobody compares it with the session's id",
    shows: ["divergence"],
    tamper: () => ownSeeds(),
    checkSession: checkingAllBut("id"),
  },
  "believes-any-definition": {
    fault: "each PNode is told another network and nobody compares its hash",
    shows: ["divergence"],
    tamper: () => ownDefinitions(),
    checkSession: checkingAllBut("definition"),
  },
  "delivers-another-microbatch": {
    fault: "whoever asks for a message gets that of another microbatch",
    shows: ["divergence"],
    process: processes.deliversAnother,
  },
  "loses-a-gradient": {
    fault: "the last gradient of a step is not added",
    shows: ["divergence", "error"],
    process: processes.losesAGradient,
  },
  "has-an-owner-too-many": {
    fault: "a VNode that moves keeps its old owner beside the new one",
    // Whichever comes first: an owner too many, or one whose room was given back.
    shows: ["fence", "room"],
    store: (view, records) =>
      rewriting(view, "vnode", (record: VNodeRecord) => {
        const before = records.vnode(record.session, record.vnode)?.members ?? [];
        const gone = before.filter(({ pnode }) => !record.members.some((one) => one.pnode === pnode));
        return record.members.length === 0 ? record : { ...record, members: [...record.members, ...gone] };
      }),
  },
  "leaves-a-root-out": {
    fault: "the root of a line's first step is not kept",
    shows: ["divergence"],
    store: (view) => rewriting(view, "step", (record: StepRecord) => ({ ...record, roots: record.roots.slice(1) })),
  },
  "rounds-differently": {
    fault: "one PNode of a numerics class rounds in another way than the others",
    shows: ["divergence"],
    executor: (inner, { name }) => (name === "p1" ? nudging(inner, 1) : inner),
  },
  "resolves-to-where-it-was": {
    fault: "who asks where VNodes are is told where they were at first",
    shows: ["hang"],
    tamper: () => firstPlaces(),
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
    shows: ["fence", "durable", "line", "divergence", "hang", "room"],
    store: blindRetries,
  },
  "acknowledges-before-storing": {
    fault: "the blob store says 'stored' and loses every third blob",
    shows: ["hang", "error"],
    blobs: losingBlobs,
  },
  "bits-are-compared-nowhere": {
    fault: "PNodes of another release register as if they were of this one, and work for its sessions",
    shows: ["divergence"],
    seedsMax: 300,
    tamper: () => registering((register) => ({ ...register, bits, answerBits })),
    checkSession: checkingAllBut("bits"),
  },
  "placement-ignores-bits": {
    fault: "sessions are placed on PNodes of another release, which refuse them",
    shows: ["error", "hang"],
    seedsMax: 300,
    tamper: () => registering((register) => ({ ...register, bits, answerBits })),
  },
  "served-bits-are-compared-nowhere": {
    fault: "PNodes of another release register as if they were of this one, and answer for its models",
    shows: ["answer"],
    seedsMax: 300,
    tamper: () => registering((register) => ({ ...register, bits, answerBits })),
    checkServed: () => {},
  },
  "classes-are-mixed": {
    fault: "PNodes that round differently register as one numerics class",
    shows: ["divergence"],
    seedsMax: 300,
    tamper: () =>
      registering((register) => ({
        ...register,
        capabilities: {
          ...(register["capabilities"] as Loose),
          numerics: [{ engine: "reference", class: usualClass }],
        },
      })),
  },
  "claims-weigh-nothing": {
    fault: "room is claimed without counting what the others have claimed",
    shows: ["room"],
    store: (view) =>
      rewriting(view, "room", (room: RoomRecord) => ({
        ...room,
        claims: Object.fromEntries(
          Object.entries(room.claims).map(([id, claim]) => [id, { ...claim, memoryBytes: 0 }]),
        ),
      })),
  },
  "owns-before-it-claims": {
    fault: "an owner is written whose claim on room is not there",
    shows: ["room"],
    store: (view) => rewriting(view, "room", (room: RoomRecord) => ({ ...room, claims: {} })),
  },
  "holds-on-to-room": {
    fault: "a PNode counts VNodes that have left it, and refuses others for them",
    shows: ["room", "hang"],
    room: ({ timers }, lentBytes) => new HoardedRoom(timers, lentBytes),
  },
  "keeps-claims-for-ever": {
    fault: "room that was claimed is never given back nor swept",
    shows: ["room", "hang"],
    store: (view, records) =>
      rewriting(view, "room", (room: RoomRecord) => {
        const before = records.room(room.pnode);
        return before?.life === room.life ? { ...room, claims: { ...before.claims, ...room.claims } } : room;
      }),
  },
  "pays-twice-after-rollback": {
    fault: "an interval that was paid is paid again, as if the session had gone back before it",
    shows: ["ledger"],
    store: (view) => rewriting(view, "block", (block: Block) => onWork(block, (one) => ({ ...one, from: 0 }))),
  },
  "pays-before-final": {
    fault: "work is paid one checkpoint ahead of what is final",
    shows: ["ledger"],
    store: (view, records) =>
      rewriting(view, "block", (block: Block) => {
        const ahead = records.session(block.chain)?.policy.checkpointEvery ?? 1;
        return onWork(block, (one) => ({ ...one, to: one.to + ahead }));
      }),
  },
  "makes-credits-from-nothing": {
    fault: "a transfer credits more than it debits",
    shows: ["ledger"],
    store: (view) =>
      rewriting(view, "block", (block: Block) => {
        const { transfer } = block;
        return { ...block, transfer: { ...transfer, legs: { ...transfer.legs, "available/nobody": 1 } } };
      }),
  },
  "waits-without-a-word": {
    fault: "a session that waits for room does not say for what",
    shows: ["wait"],
    store: (view) =>
      rewriting(view, "session", (session: SessionRecord) =>
        session.status === "waiting" ? { ...session, reason: "" } : session,
      ),
  },
  "answers-by-another-chance": {
    fault: "a served model chooses its words with another seed than it was asked to",
    shows: ["answer"],
    tamper: () =>
      onCall(ServingService.method.generateTokens, "input", (request) => ({
        ...request,
        sampling: { ...(request["sampling"] as Loose), seed: 4_711n },
      })),
  },
  "falls-silent-in-an-answer": {
    fault: "an answer ends without saying why",
    shows: ["answer"],
    tamper: () => onCall(InferenceService.method.generate, "output", (piece) => ({ ...piece, finish: "" })),
  },
  "collects-too-much": {
    fault: "the collector deletes a state that is still needed",
    shows: ["hang", "error"],
    blobs: collectingTooMuch,
  },
};
