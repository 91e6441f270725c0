// What the PNodes of a crew ask of each other: to hear news, to be of the crew again, to keep a state, to hand one over.

import { fail } from "../../core/errors.ts";
import { parseSha256, type SessionId, type Sha256, type VNodeId } from "../../core/ids.ts";
import { wholeOf } from "../../core/whole.ts";
import { charterToWire, type SignedCharter } from "../../crew/charter.ts";
import type { TenureOwner } from "../../crew/tenures.ts";
import { SessionPeerService, type CrewNews as WireNews } from "../../protocol/gen/dcnr/v1/session_peers_pb.ts";
import { type ServedService, service } from "../../protocol/network.ts";
import { holderToWire } from "./crew-wire.ts";
import { HandingOver } from "./handing-over.ts";
import type { KeptStates } from "./kept-states.ts";
import type { CrewPeers } from "./peers.ts";
import type { SessionCrew } from "./session-crew.ts";

/** A VNode goes at most so far beyond the line that this many checkpoints of it lie there, and as many below. */
const keptPerVNodeMax = 160;

export interface CrewServiceOptions {
  readonly self: TenureOwner;
  readonly kept: KeptStates;
  /** Of a session's dataset, if it is here. */
  readonly data: (session: SessionId, hash: Sha256) => Promise<Uint8Array | undefined>;
  /** What an orchestrator said of a session; empty if that is not known here. */
  readonly describe: (session: SessionId) => Uint8Array;
  /** Gives the newer charter by which this PNode goes, if it has one. */
  readonly enlist: (charter: SignedCharter, caller: string | undefined) => SignedCharter | undefined;
  readonly peers: CrewPeers;
  readonly crewOf: (session: string) => SessionCrew | undefined;
  readonly heard: (crew: SessionCrew, peer: string, incarnation: string, routes: string, news: WireNews) => void;
}

export function crewService(options: CrewServiceOptions): ServedService {
  const { self, kept, data, describe, enlist, peers, crewOf, heard } = options;
  const handing = new HandingOver();
  /** Only a charter lets anybody speak for a session. */
  const admitted = (session: string, caller: string | undefined): [SessionCrew, string] => {
    const crew = crewOf(session);
    if (crew === undefined) fail("not_found", `this PNode is not of the crew of session ${session.slice(0, 80)}`);
    if (caller === undefined || !crew.isCrew(caller))
      fail("permission_denied", `PNode ${caller} is not of the crew of session ${session}`);
    return [crew, caller];
  };
  return service(SessionPeerService, {
    tell: async ({ incarnation, routes, news }, { caller }) => {
      const [crew, peer] = admitted(news?.session ?? "", caller.id);
      heard(crew, peer, incarnation, routes, news as WireNews);
      return { incarnation: self.incarnation, news: crew.telling.newsFor(peer) };
    },
    keep: async ({ session, vnode, step, state, trail }, { caller, signal }) => {
      const [crew, peer] = admitted(session, caller.id);
      const wanted = {
        vnode: vnode as VNodeId,
        step: wholeOf(step),
        state: parseSha256(state, "the state"),
        trail: trail === "" ? ("" as const) : parseSha256(trail, "the trail"),
      };
      if (!crew.charter.vnodes.some((one) => one.vnode === wanted.vnode))
        fail("not_found", `session ${session} has no VNode ${vnode.slice(0, 80)}`);
      if (wanted.step < crew.line) fail("failed_precondition", `step ${step} lies below the line ${crew.line}`);
      if (wanted.step > (crew.lastStep ?? Number.MAX_SAFE_INTEGER - 1))
        fail("invalid_argument", `session ${session} has no step ${step}`);
      // A step has one state: whoever names another than the one that is held here would have it thrown away.
      const held = kept.find(crew.charter.session, wanted.vnode, wanted.step)?.state;
      const isOwner = crew.tenureOf(wanted.vnode)?.owners.some(({ pnode }) => pnode === peer) === true;
      if (held !== undefined && held !== wanted.state && (wanted.step === crew.line || !isOwner))
        fail("permission_denied", `another state of VNode ${vnode} at step ${step} is held here`);
      // Others than its owner have only the line's state to hand on, as long as orchestrators say who owns what.
      if (!isOwner && !crew.isAlone && crew.stateAtLine(wanted.vnode) !== wanted.state)
        fail("permission_denied", `PNode ${peer} does not own VNode ${vnode}`);
      const count = kept.countOf(crew.charter.session, wanted.vnode);
      const isNew = held !== wanted.state && !kept.isComing({ session: crew.charter.session, ...wanted });
      if (isNew && count >= keptPerVNodeMax)
        fail("resource_exhausted", `${count} states of VNode ${vnode} are held here already`);
      const from = [{ pnode: peer, routes: crew.routesOf(peer) }, ...crew.sources(wanted.state)];
      await crew.keeping.fetchAndKeep(wanted, from, signal, crew.memoryBytesOf(wanted.vnode));
      return { holder: holderToWire(self.pnode, crew.keeping.ownList) };
    },
    enlist: async ({ charter }, { caller }) => {
      const newer = enlist(charter ?? fail("invalid_argument", "there is no charter"), caller.id);
      return newer === undefined ? {} : { newer: charterToWire(newer) };
    },
    describe: async ({ session }, { caller }) => {
      const [crew] = admitted(session, caller.id);
      const described = describe(crew.charter.session);
      if (described.byteLength === 0) fail("not_found", `nobody has told this PNode what session ${session} is`);
      return { described };
    },
    fetch: (request, { caller, signal }) => {
      const [crew, peer] = admitted(request.session, caller.id);
      const hash = parseSha256(request.hash, "the blob's name");
      const { session } = crew.charter;
      const pieces = async function* () {
        const leave = await handing.enter(peer, signal);
        try {
          const own = kept.isOf(session, hash) ? await kept.read(hash) : undefined;
          const content = own ?? (await data(session, hash));
          if (content === undefined) fail("not_found", `blob ${hash} of session ${session} is not here`);
          if (own !== undefined) crew.keeping.keptBytes += own.byteLength;
          yield* peers.pieces(content, signal);
        } finally {
          leave();
        }
      };
      return pieces();
    },
  });
}
