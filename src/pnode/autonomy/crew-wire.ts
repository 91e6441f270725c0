// The crew's news between its messages and what is decided by them. What comes from peers is checked here.

import type { MessageInitShape } from "@bufbuild/protobuf";
import { fail } from "../../core/errors.ts";
import { parseSha256, type VNodeId } from "../../core/ids.ts";
import { wholeOf } from "../../core/whole.ts";
import { charterToWire, type SignedCharter, tenureFromWire, tenureToWire } from "../../crew/charter.ts";
import type { CrewNews, CrewState } from "../../crew/crew.ts";
import type { HeldState, HolderList } from "../../crew/holdings.ts";
import { toldOf } from "../../crew/sightings.ts";
import { hashOfTenures } from "../../crew/tenures.ts";
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

/** As of its arrival: its ages are of when it was sent. If they did not count the way, what is told back and forth would never grow old. */
export function newsFromWire(wire: WireNews, wayMs: number): CrewNews {
  if (wire.holders.length > listMax || wire.sightings.length > listMax || wire.tenures.length > statesMax)
    fail("invalid_argument", "news of a crew is longer than any crew can be");
  return {
    line: wholeOf(wire.line),
    turn: wholeOf(wire.turn),
    holders: wire.holders.map(holderFromWire),
    tenures: wire.tenures.map(tenureFromWire),
    sightings: wire.sightings.map(({ pnode, incarnation, ageMs, routes }) => ({
      ...{ pnode, incarnation, routes },
      ageMs: Number.isFinite(ageMs) ? Math.max(0, ageMs) + wayMs : Number.MAX_SAFE_INTEGER,
    })),
    orchestratorAgeMs: isAge(wire.orchestratorAgeMs) ? wire.orchestratorAgeMs + wayMs : -1,
  };
}

function isAge(ageMs: number): boolean {
  return Number.isFinite(ageMs) && ageMs >= 0;
}

/** What one of the crew has said that it knows. */
export interface KnownThere {
  /** The newest list of each holder. */
  readonly known: ReadonlyMap<string, number>;
  /** Of its charter. */
  readonly revision: bigint;
  readonly tenuresHash: string;
}

/**
 * Without what the other knows: lists by their sequence, who hosts what by its hash, and the charter by its revision. While an orchestrator
 * is there nobody takes lists of others, nor their word of who hosts what, so they are not sent.
 */
export function newsToWire(
  state: CrewState,
  signed: SignedCharter,
  other: KnownThere,
  { nowMs, isAlone }: { readonly nowMs: number; readonly isAlone: boolean },
): MessageInitShape<typeof CrewNewsSchema> {
  const { charter, holdings, sightings, tenures, line, turn, orchestratorAtMs } = state;
  const unknown = [...holdings].filter(
    ([pnode, { sequence }]) => (isAlone || pnode === state.self.pnode) && sequence > (other.known.get(pnode) ?? -1),
  );
  const tenuresHash = hashOfTenures(tenures);
  return {
    session: charter.session,
    charterRevision: charter.revision,
    line: BigInt(line),
    turn: BigInt(turn),
    holders: unknown.map(([pnode, list]) => holderToWire(pnode, list)),
    known: Array.from(holdings, ([pnode, { sequence }]) => ({ pnode, sequence: BigInt(sequence) })),
    tenures: isAlone && other.tenuresHash !== tenuresHash ? Array.from(tenures.values(), tenureToWire) : [],
    tenuresHash,
    sightings: toldOf(sightings, nowMs).filter(({ incarnation }) => incarnation !== ""),
    orchestratorAgeMs: Math.max(0, nowMs - orchestratorAtMs),
    ...(charter.revision > other.revision ? { charter: charterToWire(signed) } : {}),
  };
}
