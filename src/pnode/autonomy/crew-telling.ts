// News between the PNodes of a crew: who is told, and what each of them is known to know already.

import { create, toBinary } from "@bufbuild/protobuf";
import { hasCode, messageOf } from "../../core/errors.ts";
import { charterToWire, type SignedCharter } from "../../crew/charter.ts";
import type { CrewState } from "../../crew/crew.ts";
import { CrewNewsSchema, type CrewNews as WireNews } from "../../protocol/gen/dcnr/v1/session_peers_pb.ts";
import type { CrewCell } from "./crew-cell.ts";
import { type KnownThere, newsToWire } from "./crew-wire.ts";
import { type Peer, tellTimeoutMs } from "./peers.ts";

/** A larger crew is told in turns: a few neighbours each time, and a few by chance. */
const tellAllMax = 8;
const tellNeighbours = 3;
/**
 * Of a question and its answer. Half would be right on the average, but the youngest word counts: what came late, told back and forth,
 * would stay young. All of it would make large crews with long ways take the living for dead.
 */
const wayShare = 0.75;

const nothing: KnownThere = { known: new Map(), revision: -1n, tenuresHash: "" };

export class CrewTelling {
  readonly #cell: CrewCell;
  /** What is told: the state as of now, with the charter that stands behind it. */
  readonly #told: () => { readonly state: CrewState; readonly signed: SignedCharter };
  readonly #telling = new Set<string>();
  /** What each peer said that it knows, when it last answered. */
  readonly #known = new Map<string, KnownThere>();

  /** Of all that was told, before it is packed for its way. */
  newsBytes = 0;
  /** How long news of each peer is on its way, by its last answer. */
  readonly #waysMs = new Map<string, number>();

  constructor(cell: CrewCell, told: () => { readonly state: CrewState; readonly signed: SignedCharter }) {
    this.#cell = cell;
    this.#told = told;
  }

  knows(peer: string, known: KnownThere): void {
    this.#known.set(peer, known);
  }

  /** How long news of a peer is on its way; of one that never answered, as long as it can be. */
  wayMs(peer: string): number {
    return this.#waysMs.get(peer) ?? tellTimeoutMs;
  }

  newsFor(peer: string): WireNews {
    const { state, signed } = this.#told();
    const news = create(CrewNewsSchema, newsToWire(state, signed, this.#known.get(peer) ?? nothing, this.#cell));
    this.newsBytes += toBinary(CrewNewsSchema, news).byteLength;
    return news;
  }

  tell(peer: Peer): void {
    const { pnode } = peer;
    const { tasks, peers, self, routes } = this.#cell.options;
    if (this.#telling.has(pnode)) return;
    this.#telling.add(pnode);
    tasks.run(`news for PNode ${pnode}`, async () => {
      try {
        const request = { incarnation: self.incarnation, routes: routes(), news: this.newsFor(pnode) };
        const askedMs = this.#cell.nowMs;
        const { incarnation, news } = await peers.tell(peer, request);
        this.#waysMs.set(pnode, wayShare * (this.#cell.nowMs - askedMs));
        if (news !== undefined && !this.#cell.isStopped) this.onNews(pnode, incarnation, news);
      } catch (error) {
        this.#cell.log("debug", `PNode ${pnode} does not hear: ${messageOf(error)}`);
        const isForgotten = hasCode(error, "permission_denied") || hasCode(error, "not_found");
        if (isForgotten && this.#cell.isAlone && !this.#cell.isStopped) await this.#enlist(peer);
      } finally {
        this.#telling.delete(pnode);
      }
    });
  }

  /** It has forgotten that it is of the crew, with its disk; or a newer charter, of which nothing was heard here, names others. */
  async #enlist(peer: Peer): Promise<void> {
    this.#known.delete(peer.pnode);
    try {
      const { newer } = await this.#cell.options.peers.enlist(peer, { charter: charterToWire(this.#told().signed) });
      if (newer !== undefined && !this.#cell.isStopped) this.onCharter(newer);
    } catch (error) {
      this.#cell.log("debug", `PNode ${peer.pnode} takes no charter: ${messageOf(error)}`);
    }
  }

  /** Set by whoever checks them. */
  onCharter: (signed: SignedCharter) => void = () => {};

  /** Set by whoever checks charters that come with answers. */
  onNews: (pnode: string, incarnation: string, news: WireNews) => void = () => {};

  /** All of the crew, or a few of a large one. */
  tellAll(all: boolean): void {
    const others = [...this.#cell.state.charter.crew.keys()].filter((pnode) => pnode !== this.#cell.options.self.pnode);
    for (const pnode of all ? others : this.#toldNow(others)) {
      const peer = this.#cell.peer(pnode);
      if (peer) this.tell(peer);
    }
  }

  #toldNow(others: readonly string[]): readonly string[] {
    if (others.length <= tellAllMax) return others;
    const ring = [...others].sort();
    const next = ring.findIndex((pnode) => pnode > this.#cell.options.self.pnode);
    const neighbours = Array.from({ length: tellNeighbours }, (_, k) => ring[(Math.max(0, next) + k) % ring.length]);
    const { chance } = this.#cell.options.world;
    const drawn = Array.from({ length: tellNeighbours }, () => ring[Math.floor(chance.uniform() * ring.length)]);
    return [...new Set([...neighbours, ...drawn])].filter((pnode) => pnode !== undefined);
  }
}
