// Deliberate protocol faults, one at a time, each breaking one rule on which the promise rests. They show that
// the checkers can see: a simulator that finds nothing in these would find nothing in a real bug either.
// Production code knows none of them: each is a broken part in the place of a sound one (mutants/).

import { answerBits, bits } from "../src/core/bits.ts";
import type { KeyId } from "../src/core/ids.ts";
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
import { type Loose, type Mutant, onCall, onEvent } from "./mutants/mutant.ts";
import { answersItself, ownAddressesOnly, waitsAtRelaysOnce } from "./mutants/networks.ts";
import { recordMutants } from "./mutants/records.ts";
import { roundMutants } from "./mutants/rounds.ts";
import { checkingAllBut } from "./mutants/sessions.ts";
import { stepMutants } from "./mutants/steps.ts";
import { blindRetries, collectingTooMuch, losingBlobs, uploadsNothing } from "./mutants/stores.ts";
import {
  firstPlaces,
  flippingBits,
  inTheFirstTurn,
  ownDefinitions,
  ownSeeds,
  registering,
  startingAt,
} from "./mutants/tampers.ts";
import { trustMutants } from "./mutants/trust.ts";
import { nudging } from "./world/executor.ts";

class HoardedRoom extends Room {
  override giveBack(): void {}
}

export const mutants: Readonly<Record<string, Mutant>> = {
  ...crewMutants,
  ...eraMutants,
  ...roundMutants,
  ...answerMutants,
  ...trustMutants,
  ...stepMutants,
  ...recordMutants,
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
    tamper: (records) => startingAt(records, ({ durable }) => Object.keys(durable).map(Number)),
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
    // Only of what answers, so that no session of training is placed where it is refused.
    tamper: () => registering((register) => ({ ...register, answerBits })),
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
  "holds-on-to-room": {
    fault: "a PNode counts VNodes that have left it, and refuses others for them",
    shows: ["room", "hang"],
    room: ({ timers }, lentBytes) => new HoardedRoom(timers, lentBytes),
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
