// What the sessions of this PNode's crews are, as an orchestrator said while there was one: kept for the time without any, told to others
// of the crew who have lost it with their disks, and asked of them. Whoever says it, the session's id tells whether it is true.

import { fromBinary, toBinary } from "@bufbuild/protobuf";
import { fail, messageOf } from "../../core/errors.ts";
import { parseSha256, type SessionId, type Sha256 } from "../../core/ids.ts";
import { blobsOf, parseManifest } from "../../data/manifest.ts";
import { type DescribeSessionResponse, DescribeSessionResponseSchema } from "../../protocol/gen/dcnr/v1/pnode_pb.ts";
import type { BlobCache } from "../options.ts";
import type { CrewPeers, Peer } from "./peers.ts";

export interface DescriptionsOptions {
  readonly peers: CrewPeers;
  readonly cache: BlobCache | undefined;
  /** Asks an orchestrator. */
  readonly describe: (session: SessionId) => Promise<DescribeSessionResponse>;
  /** Fails for what is not the session of that id. */
  readonly check: (session: SessionId, described: DescribeSessionResponse) => void;
}

export class Descriptions {
  readonly #options: DescriptionsOptions;
  readonly #known = new Map<SessionId, DescribeSessionResponse>();
  /** What a session's dataset is made of. */
  readonly #dataNames = new Map<SessionId, ReadonlySet<Sha256>>();

  constructor(options: DescriptionsOptions) {
    this.#options = options;
  }

  of(session: SessionId): DescribeSessionResponse | undefined {
    return this.#known.get(session);
  }

  /** Empty while nobody has said it. */
  bytesOf(session: SessionId): Uint8Array {
    const known = this.#known.get(session);
    return known ? toBinary(DescribeSessionResponseSchema, known) : new Uint8Array();
  }

  lastStep(session: SessionId): number | undefined {
    const work = this.#known.get(session)?.work;
    return work?.case === "training" ? Number(work.value.identity?.steps) : undefined;
  }

  /** From this PNode's own disk. */
  found(session: SessionId, bytes: Uint8Array): void {
    if (bytes.byteLength > 0) this.#known.set(session, fromBinary(DescribeSessionResponseSchema, bytes));
  }

  forget(session: SessionId): void {
    this.#known.delete(session);
    this.#dataNames.delete(session);
  }

  /** Of an orchestrator; of these peers while none is there. */
  async ask(session: SessionId, peers: readonly Peer[], isAlone: boolean): Promise<void> {
    if (this.#known.has(session)) return;
    this.#known.set(session, isAlone ? await this.#askPeers(session, peers) : await this.#options.describe(session));
  }

  async #askPeers(session: SessionId, peers: readonly Peer[]): Promise<DescribeSessionResponse> {
    let reason = "nobody of the crew is there";
    for (const peer of peers) {
      try {
        const { described } = await this.#options.peers.describe(peer, session);
        const told = fromBinary(DescribeSessionResponseSchema, described);
        this.#options.check(session, told);
        return told;
      } catch (error) {
        reason = messageOf(error);
      }
    }
    return fail("unavailable", `nobody says what session ${session} is: ${reason}`);
  }

  /** Of the session's dataset: what lies in the cache for others is none of the crew's business. */
  async data(session: SessionId, hash: Sha256): Promise<Uint8Array | undefined> {
    const fromCache = (name: Sha256) => this.#options.cache?.get(name).catch(() => undefined);
    const work = this.#known.get(session)?.work;
    if (work?.case !== "training") return undefined;
    const manifest = parseSha256(work.value.identity?.dataset ?? "", "the session's dataset");
    let names = this.#dataNames.get(session);
    if (names === undefined) {
      const content = await fromCache(manifest);
      if (content === undefined) return undefined;
      const blobs = blobsOf(parseManifest(new TextDecoder().decode(content)));
      names = new Set([manifest, ...blobs.map((blob) => blob.hash)]);
      this.#dataNames.set(session, names);
    }
    return names.has(hash) ? fromCache(hash) : undefined;
  }
}
