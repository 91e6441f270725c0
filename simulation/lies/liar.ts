// A machine that joins as itself and then speaks for others: it records states of VNodes that it does not own, sends forged
// tensors in the name of owners that nobody has heard of, asks PNodes for answers as if it were an orchestrator, wants the
// blobs of others, says that it cannot reach its peers and that their VNodes failed and their states are damaged, and floods
// its orchestrator with large and impossible messages. Nothing of it may be taken, and no root may change.

import type { DescMethod } from "@bufbuild/protobuf";
import { answerBits, bits } from "../../src/core/bits.ts";
import { hasCode } from "../../src/core/errors.ts";
import { hashOfContent, sha256 } from "../../src/core/hash.ts";
import type { KeyId } from "../../src/core/ids.ts";
import { sleep } from "../../src/core/world.ts";
import { fromDataType } from "../../src/peer/travel-types.ts";
import { BlobSpace } from "../../src/protocol/gen/dcnr/v1/common_pb.ts";
import {
  type Delivery,
  type ExchangeRequest,
  ExchangeService,
  Verdict,
} from "../../src/protocol/gen/dcnr/v1/exchange_pb.ts";
import { BlobAction, PNodeService } from "../../src/protocol/gen/dcnr/v1/pnode_pb.ts";
import { ServingService } from "../../src/protocol/gen/dcnr/v1/serving_pb.ts";
import type { Network } from "../../src/protocol/network.ts";
import { withKey } from "../../src/protocol/routes/address.ts";
import { addressOf, type Site } from "../boot.ts";
import { networkKey } from "../world/network-key.ts";
import type { Host } from "../world/world.ts";
import { liarName } from "./liar-name.ts";

const pauseMs = 400;
const streamMs = 300;
/** Newer than any owner could be. */
const boldEpoch = 1n << 40n;
const floodText = "x".repeat(20_000);
const floodCount = 5;

export class Liar {
  readonly #site: Site;
  readonly #host: Host;
  readonly #network: Network;
  readonly #onTaken: (what: string) => void;
  /** What it has overheard: an honest tensor, which it forges. */
  #overheard: Delivery | undefined;

  /** `onTaken` hears of every lie that somebody believed. */
  constructor(site: Site, onTaken: (what: string) => void) {
    this.#site = site;
    this.#onTaken = onTaken;
    this.#host = site.world.start(liarName);
    this.#network = site.fabric.network(this.#host);
    void this.#attach();
    void this.#lie();
  }

  /** Everything that is sent in the world. */
  overhear(message: object, method: DescMethod): void {
    if (method !== ExchangeService.method.exchange) return;
    const { event } = message as Pick<ExchangeRequest, "event">;
    if (event?.case === "delivery" && event.value.name && event.value.data?.byteLength > 0)
      this.#overheard = event.value;
  }

  /** It is a member, as everybody may be, and takes no work. */
  async #attach(): Promise<void> {
    for (let attempt = 0; this.#host.alive; attempt++) {
      const address = this.#site.addresses[attempt % this.#site.addresses.length] as string;
      const channel = this.#network.open(withKey(address, networkKey), PNodeService.method.attach);
      try {
        const boast = {
          cores: 999,
          memoryBytes: 1n << 50n,
          gflops: 1e9,
          numerics: [{ engine: "reference", class: "reference" }],
        };
        await channel.send({
          event: {
            case: "register",
            value: {
              protocolMajor: 1,
              bits,
              answerBits,
              name: liarName,
              incarnation: "1",
              routes: [addressOf(liarName)],
              closed: true,
              capabilities: boast,
            },
          },
        });
        void this.#slander(channel);
        for await (const _ of channel.incoming);
      } catch {
        // Orchestrators come and go; it tries the next.
      }
      await sleep(this.#host.world.timers, pauseMs);
    }
  }

  async #slander(channel: { send(message: never): Promise<void> }): Promise<void> {
    try {
      for (let sequence = 1n; ; sequence++) {
        const links = this.#site.records.owners().map((pnode) => ({ pnode, failingMs: 60_000 }));
        const beat = { sequence, accepting: false, links, vnodes: this.#failures() };
        await channel.send({ event: { case: "heartbeat", value: beat } } as never);
        for (const evidence of this.#evidence())
          await channel.send({ event: { case: "evidence", value: evidence } } as never);
        await sleep(this.#host.world.timers, 1_000);
      }
    } catch {
      // The stream ended.
    }
  }

  /** That VNodes of others failed on it, and that the states at the line are damaged. */
  #failures(): object[] {
    const { session = "" } = this.#overheard?.name ?? {};
    const { to: vnode = "" } = this.#overheard ?? {};
    const record = this.#site.records.vnode(session, vnode);
    if (record === undefined) return [];
    const { line = 0 } = this.#site.records.session(session) ?? {};
    const damagedState = record.durable[String(line)]?.hash ?? "";
    const failed = { session, vnode, epoch: BigInt(record.epoch), phase: "failed", detail: floodText };
    return [failed, { ...failed, damagedState }];
  }

  /** That owners said two things, in messages as large as they come. */
  #evidence(): object[] {
    const name = this.#overheard?.name;
    const witness = (hash: string) => ({ pnode: this.#site.records.owners()[0] ?? "", epoch: boldEpoch, hash });
    const one = { name: { ...name, edge: floodText }, first: witness(floodText), second: witness("x") };
    return name === undefined ? [] : Array.from({ length: floodCount }, () => one);
  }

  /** The state of a VNode that somebody else owns, and the data of its session. */
  async #steal(): Promise<void> {
    const { session = "" } = this.#overheard?.name ?? {};
    const record = this.#site.records.vnode(session, this.#overheard?.to ?? "");
    const known = this.#site.records.session(session);
    if (record === undefined || known === undefined) return;
    this.#site.records.pretended = record.members[0]?.pnode ?? "";
    const wanted: [BlobSpace, string | undefined][] = [
      [BlobSpace.STATES, record.durable[String(known.line)]?.hash],
      [BlobSpace.DATASETS, known.identity.dataset],
    ];
    const address = withKey(this.#site.addresses[0] as string, networkKey);
    for (const [space, hash] of wanted)
      for (const action of [BlobAction.DOWNLOAD, BlobAction.UPLOAD]) {
        if (hash === undefined || (action === BlobAction.UPLOAD && space !== BlobSpace.STATES)) continue;
        const request = { session, hash, bytes: 11n, action, space };
        const granted = this.#network.call(address, PNodeService.method.grantBlob, request, { timeoutMs: 2_000 });
        await granted.then(
          () => this.#onTaken(`the wish for a blob of ${record.vnode}`),
          () => {},
        );
      }
  }

  async #lie(): Promise<void> {
    while (this.#host.alive) {
      await sleep(this.#host.world.timers, pauseMs);
      await this.#record().catch(() => {});
      await this.#steal();
      for (const pnode of this.#site.records.owners()) {
        await this.#send(pnode).catch(() => {});
        for (const session of this.#site.records.served()) await this.#ask(pnode, session);
      }
    }
  }

  /** A state for a step that nobody has recorded yet. */
  async #record(): Promise<void> {
    const { session, to: vnode } = { session: this.#overheard?.name?.session ?? "", to: this.#overheard?.to ?? "" };
    const record = this.#site.records.vnode(session, vnode);
    if (record === undefined) return;
    const state = sha256("not a state");
    const request = {
      session,
      vnode,
      epoch: BigInt(record.epoch),
      step: BigInt((this.#site.records.session(session)?.line ?? 0) + 1),
    };
    const address = withKey(this.#site.addresses[0] as string, networkKey);
    const answer = await this.#network.call(
      address,
      PNodeService.method.recordDurable,
      { ...request, state, stateBytes: 11n, steps: [] },
      { timeoutMs: 2_000 },
    );
    if (answer.accepted) this.#onTaken(`a state of ${vnode}`);
  }

  /** The tensor that it has overheard, of the next step and with other numbers. */
  async #send(pnode: string): Promise<void> {
    const honest = this.#overheard;
    const type = honest && fromDataType(honest.dtype);
    if (honest?.name === undefined || type !== "float32") return;
    const owner = this.#site.records.vnode(honest.name.session, honest.to)?.members[0]?.pnode as string | undefined;
    const sender = this.#site.records.vnode(honest.name.session, honest.from)?.members[0]?.pnode as string | undefined;
    if (owner !== pnode || sender === undefined) return;
    this.#site.records.pretended = sender;
    const data = new Uint8Array(new Float32Array(honest.data.byteLength / 4).fill(7).buffer);
    const hash = hashOfContent({ dtype: type, shape: [...honest.shape], bytes: data });
    const name = { ...honest.name, step: honest.name.step + 1n };
    const channel = this.#network.open(withKey(addressOf(pnode), pnode as KeyId), ExchangeService.method.exchange);
    const close = this.#host.after(streamMs, () => channel.close());
    try {
      await channel.send({ event: { case: "hello", value: { protocolMajor: 1 } } });
      await channel.send({
        event: { case: "delivery", value: { ...honest, id: 1n, epoch: boldEpoch, name, data, hash } },
      });
      for await (const { event } of channel.incoming)
        if (event.case === "receipt" && event.value.verdict === Verdict.STORED)
          this.#onTaken(`a tensor for ${honest.to}`);
    } finally {
      close();
      channel.close();
    }
  }

  /** As only orchestrators of the network may. Whoever lets it in complains that the question has no content. */
  async #ask(pnode: string, session: string): Promise<void> {
    const address = withKey(addressOf(pnode), pnode as KeyId);
    try {
      await this.#network.call(address, ServingService.method.forwardTensors, { session }, { timeoutMs: 500 });
      this.#onTaken(`a question to ${pnode}`);
    } catch (error) {
      if (hasCode(error, "invalid_argument")) this.#onTaken(`a question to ${pnode}`);
    }
  }
}
