// Charters: signed words by which a session's PNodes may go on with it while no orchestrator is there. Composed from the
// mirror whenever somebody of the crew is told of the session; signed again only when something in them changed.

import type { PNodeId } from "../../core/ids.ts";
import type { Identity } from "../../core/keys.ts";
import {
  type Charter,
  type CrewMember,
  charterLifetimeMs,
  crewMax,
  keepersUsual,
  type SignedCharter,
  signCharter,
} from "../../crew/charter.ts";
import { successorsOf } from "../../crew/successors.ts";
import type { Context } from "../context.ts";
import { isOpen, type PNodeRecord } from "../records/machines.ts";
import type { SessionRecord } from "../records/sessions.ts";
import { key, prefix } from "../records/store-keys.ts";
import { isLive, vnodeRecordsOf } from "../records/workloads.ts";

/** Beside the owners: enough to take over from several of them, few enough that news stays cheap. */
const sparesMax = 6;
/** How long before its end a charter is signed anew. */
const renewMs = charterLifetimeMs / 2;

interface Issued {
  readonly content: string;
  readonly counter: number;
  readonly issuedWallMs: number;
  readonly signed: SignedCharter;
}

export class Charters {
  readonly #context: Context;
  readonly #identity: Identity | undefined;
  readonly #issued = new Map<string, Issued>();

  /** `identity`: the network's key. Without it there are no charters. */
  constructor(context: Context, identity: Identity | undefined) {
    this.#context = context;
    this.#identity = identity;
  }

  isAutonomous({ policy }: Pick<SessionRecord, "policy">): boolean {
    return this.#identity !== undefined && policy.autonomy === "on";
  }

  /** Live sessions that may go on without orchestrators. */
  sessions(): SessionRecord[] {
    return this.#context.mirror
      .under(prefix.sessions)
      .filter((session) => isLive(session) && this.isAutonomous(session));
  }

  /** Owners, and some who may take over or keep states; empty for sessions that need orchestrators. */
  crewOf(id: string): ReadonlyMap<PNodeId, CrewMember> {
    const session = this.#context.mirror.get(key.session(id));
    if (!session || !isLive(session) || !this.isAutonomous(session) || session.numericsClass === "") return new Map();
    const owners = new Set<PNodeId>();
    for (const { members } of vnodeRecordsOf(this.#context.mirror, session).values())
      for (const { pnode } of members) owners.add(pnode);
    const here = this.#context.mirror.under(prefix.pnodes).filter(({ status }) => status === "online");
    const byId = new Map(here.map((record) => [record.id as string, record]));
    const others = successorsOf(id, "", byId.keys())
      .flatMap((pnode) => byId.get(pnode) ?? [])
      .filter((record) => !owners.has(record.id))
      .sort((a, b) => Number(canHost(session, b)) - Number(canHost(session, a)))
      .slice(0, sparesMax);
    const owning = [...owners].flatMap((pnode) => this.#context.mirror.get(key.pnode(pnode)) ?? []);
    // An owner that was lost for a moment is an owner: a charter that lets it host nothing would leave its VNodes to nobody.
    const crew = [
      ...owning.map((record) => ({ record, hosts: isAlike(session, record) && isWelcome(record) })),
      ...others.map((record) => ({ record, hosts: canHost(session, record) })),
    ];
    return new Map(crew.slice(0, crewMax).map(({ record, hosts }) => [record.id, { routes: record.routes, hosts }]));
  }

  /** Undefined until all of its VNodes have owners. `revision` grows with every change of the session's records. */
  charterOf(id: string, revision: bigint): SignedCharter | undefined {
    const identity = this.#identity;
    const session = this.#context.mirror.get(key.session(id));
    const crew = this.crewOf(id);
    if (identity === undefined || session === undefined || crew.size === 0) return undefined;
    const charter = this.#compose(session, crew);
    if (charter === undefined) return undefined;
    const content = JSON.stringify([...crew, charter.vnodes, charter.line, charter.turn, String(revision)]);
    const known = this.#issued.get(id);
    const wallMs = this.#context.world.clock.wallMs();
    if (known?.content === content && Math.abs(wallMs - known.issuedWallMs) < renewMs) return known.signed;
    const counter = ((known?.counter ?? 0) + 1) % counters;
    const signed = signCharter(
      {
        ...charter,
        // The crew may change while no record of the session does.
        revision: revision * BigInt(counters) + BigInt(counter),
        issuedWallMs: wallMs,
        expiresWallMs: wallMs + charterLifetimeMs,
      },
      identity,
    );
    this.#issued.set(id, { content, counter, issuedWallMs: wallMs, signed });
    return signed;
  }

  forget(id: string): void {
    this.#issued.delete(id);
  }

  #compose(
    session: SessionRecord,
    crew: ReadonlyMap<PNodeId, CrewMember>,
  ): Omit<Charter, "revision" | "issuedWallMs" | "expiresWallMs"> | undefined {
    const { id, line, turn = 0, numericsClass } = session;
    const vnodes: Charter["vnodes"][number][] = [];
    const records = vnodeRecordsOf(this.#context.mirror, session);
    for (const vnode of session.vnodes) {
      const record = records.get(vnode);
      if (!record || record.members.length === 0) return undefined;
      const owners = record.members.map(({ pnode, incarnation }) => ({ pnode, incarnation }));
      const state = record.durable[String(line)]?.hash ?? "";
      vnodes.push({ vnode, tenure: { vnode, epoch: record.epoch, count: 0, owners }, state });
    }
    return { session: id, numericsClass, crew, vnodes, line, turn, keepers: keepersUsual };
  }
}

/** Charters that differ in nothing but their crew. */
const counters = 1 << 16;

function canHost(session: SessionRecord, record: PNodeRecord): boolean {
  return isOpen(record) && isAlike(session, record);
}

/** It would come to the same bits. */
function isAlike({ identity, numericsClass }: SessionRecord, { facts, bits }: PNodeRecord): boolean {
  const isOfClass = facts.numerics.some((one) => one.engine === identity.numerics && one.class === numericsClass);
  return isOfClass && bits === identity.bits;
}

/** Nobody has said that it should get no work. */
function isWelcome({ closed, drained, barred }: PNodeRecord): boolean {
  return !closed && !drained && !barred;
}
