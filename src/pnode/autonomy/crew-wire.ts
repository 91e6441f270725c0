// The crew's news between its messages and what is decided by them. What comes from peers is checked here.

import type { MessageInitShape } from "@bufbuild/protobuf";
import { fail } from "../../core/errors.ts";
import { parseSha256, type VNodeId } from "../../core/ids.ts";
import { wholeOf } from "../../core/whole.ts";
import { charterToWire, type SignedCharter, tenureFromWire, tenureToWire } from "../../crew/charter.ts";
import type { CrewNews, CrewState } from "../../crew/crew.ts";
import type { HeldState, HolderList } from "../../crew/holdings.ts";
import { toldOf } from "../../crew/sightings.ts";
import type {
  CrewNewsSchema,
  HolderSchema,
  Holder as WireHolder,
  CrewNews as WireNews,
} from "../../protocol/gen/dcnr/v1/session_peers_pb.ts";

/** More than the VNodes of any network times the checkpoints that are kept at once. */
const statesMax = 100_000;
const listMax = 1_000;
const sequenceMax = BigInt(Number.MAX_SAFE_INTEGER - 1);

export function holderToWire(pnode: string, { sequence, states }: HolderList): MessageInitShape<typeof HolderSchema> {
  return {
    pnode,
    sequence: BigInt(sequence),
    states: states.map(({ vnode, step, state, trail }) => ({ vnode, step: BigInt(step), state, trail })),
  };
}

export function holderFromWire({ pnode, sequence, states }: WireHolder): HolderList & { readonly pnode: string } {
  if (states.length > statesMax || sequence > sequenceMax)
    fail("invalid_argument", `PNode ${pnode} cannot hold ${states.length} states`);
  // Whoever could tell a state twice would count as two who hold it.
  if (new Set(states.map(({ vnode, step }) => `${step} ${vnode}`)).size < states.length)
    fail("invalid_argument", `PNode ${pnode} lists a state twice`);
  return {
    pnode,
    sequence: Number(sequence),
    states: states.map(
      ({ vnode, step, state, trail }): HeldState => ({
        vnode: vnode as VNodeId,
        step: wholeOf(step),
        state: parseSha256(state, `the state of VNode ${vnode}`),
        trail: trail === "" ? "" : parseSha256(trail, `the trail of VNode ${vnode}`),
      }),
    ),
  };
}

export function newsFromWire(wire: WireNews): CrewNews {
  if (wire.holders.length > listMax || wire.sightings.length > listMax || wire.tenures.length > statesMax)
    fail("invalid_argument", "news of a crew is longer than any crew can be");
  return {
    line: wholeOf(wire.line),
    turn: wholeOf(wire.turn),
    holders: wire.holders.map(holderFromWire),
    tenures: wire.tenures.map(tenureFromWire),
    sightings: wire.sightings.map(({ pnode, incarnation, ageMs, routes }) => ({
      ...{ pnode, incarnation, routes },
      ageMs: Number.isFinite(ageMs) ? ageMs : Number.MAX_SAFE_INTEGER,
    })),
    orchestratorAgeMs: Number.isFinite(wire.orchestratorAgeMs) ? wire.orchestratorAgeMs : -1,
  };
}

/**
 * Without what the other knows: its lists by sequence, and its charter if that is as new. While an orchestrator is there nobody
 * takes lists of others, so they are not sent.
 */
export function newsToWire(
  state: CrewState,
  signed: SignedCharter,
  other: { readonly known: ReadonlyMap<string, number>; readonly revision: bigint },
  { nowMs, isAlone }: { readonly nowMs: number; readonly isAlone: boolean },
): MessageInitShape<typeof CrewNewsSchema> {
  const { charter, holdings, sightings, tenures, line, turn, orchestratorAtMs } = state;
  const unknown = [...holdings].filter(
    ([pnode, { sequence }]) => (isAlone || pnode === state.self.pnode) && sequence > (other.known.get(pnode) ?? -1),
  );
  return {
    session: charter.session,
    charterRevision: charter.revision,
    line: BigInt(line),
    turn: BigInt(turn),
    holders: unknown.map(([pnode, list]) => holderToWire(pnode, list)),
    known: Array.from(holdings, ([pnode, { sequence }]) => ({ pnode, sequence: BigInt(sequence) })),
    tenures: Array.from(tenures.values(), tenureToWire),
    sightings: toldOf(sightings, nowMs).filter(({ incarnation }) => incarnation !== ""),
    orchestratorAgeMs: Math.max(0, nowMs - orchestratorAtMs),
    ...(charter.revision > other.revision ? { charter: charterToWire(signed) } : {}),
  };
}
