// Broken rules of what orchestrators write down: owners and epochs, lines, room, and who is paid for what.

import type { Block, Work } from "../../src/orchestrator/ledger/block.ts";
import type { RoomRecord } from "../../src/orchestrator/records/machines.ts";
import type { SessionRecord } from "../../src/orchestrator/records/sessions.ts";
import type { StepRecord, VNodeRecord } from "../../src/orchestrator/records/vnodes.ts";
import { type Mutant, rewriting } from "./mutant.ts";

/** Changes what a settlement says it pays for. */
function onWork(block: Block, change: (work: Work) => Work): Block {
  const { transfer } = block;
  return transfer.kind === "settle" ? { ...block, transfer: { ...transfer, work: transfer.work.map(change) } } : block;
}

export const recordMutants: Readonly<Record<string, Mutant>> = {
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
};
