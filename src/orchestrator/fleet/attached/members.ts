// Who may lend machines to the network: whoever comes, those with an invite, or those an operator has named. Whoever was sent
// away stays away. Asked when a PNode registers, and again with everything that it asks for as a member.

import { fail, hasCode } from "../../../core/errors.ts";
import { sha256 } from "../../../core/hash.ts";
import type { PNodeId } from "../../../core/ids.ts";
import { base32 } from "../../../core/keys.ts";
import type { Context } from "../../context.ts";
import type { InviteRecord, MemberRecord, PolicyRecord } from "../../records/machines.ts";
import { key } from "../../records/store-keys.ts";

const inviteLifetimeMsDefault = 7 * 24 * 3_600_000;
const inviteLifetimeMsMax = 365 * 24 * 3_600_000;
const usesMax = 100_000;
const noteLengthMax = 200;

export interface Invite {
  readonly token: string;
  readonly expiresWallMs: number;
}

export class Members {
  readonly #context: Context;

  constructor(context: Context) {
    this.#context = context;
  }

  get policy(): PolicyRecord["join"] {
    return this.#context.mirror.get(key.policy())?.join ?? "open";
  }

  async setPolicy(join: PolicyRecord["join"]): Promise<void> {
    await this.#context.mirror.update(key.policy(), () => ({ join }));
  }

  isRevoked(pnode: PNodeId): boolean {
    return this.#context.mirror.get(key.member(pnode))?.standing === "revoked";
  }

  /** Fails for whoever was sent away. */
  check(pnode: PNodeId): void {
    if (this.isRevoked(pnode))
      fail("permission_denied", `PNode ${pnode} was sent away by the network's operators: ask them to admit it again`);
  }

  /** At a registration: lets the PNode in, once and for all if it shows an invite, or fails. */
  async welcome(pnode: PNodeId, invite: string): Promise<void> {
    const { mirror } = this.#context;
    const known = mirror.get(key.member(pnode)) ?? (await mirror.read(key.member(pnode)));
    if (known?.standing === "revoked") this.check(pnode);
    if (known?.standing === "admitted") return;
    const { policy } = this;
    if (policy === "open") return this.#noteInvite(pnode, invite);
    if (policy === "listed")
      fail(
        "permission_denied",
        `PNode ${pnode} is not on this network's list: ask its operators for dcnr nodes admit ${pnode}`,
      );
    if (invite === "")
      fail(
        "permission_denied",
        "this network takes machines with an invite only: ask its operators for a link, and join by that",
      );
    await this.#letIn(pnode, await this.#use(invite));
  }

  /** Whoever was sent away since it was looked up stays away. */
  async #letIn(pnode: PNodeId, invite: string): Promise<void> {
    const { mirror, world } = this.#context;
    const admitted: MemberRecord = {
      pnode,
      standing: "admitted",
      invite,
      reason: "",
      sinceWallMs: world.clock.wallMs(),
    };
    await mirror.update(key.member(pnode), (current) => (current?.standing === "revoked" ? undefined : admitted));
    this.check(pnode);
  }

  /** Nobody needs one here, and an old one keeps nobody out; but whoever shows a good one is known by it. */
  async #noteInvite(pnode: PNodeId, invite: string): Promise<void> {
    if (invite === "") return;
    const id = await this.#use(invite).catch((error: unknown) => {
      if (!hasCode(error, "permission_denied")) throw error;
      return undefined;
    });
    if (id !== undefined) await this.#letIn(pnode, id);
  }

  /** Takes one use of an invite; two that come at once never share the last one. */
  async #use(token: string): Promise<string> {
    const { mirror, world } = this.#context;
    const id = token.split("-", 1)[0] as string;
    const unknown = () => fail("permission_denied", "the invite is not known here: ask for a new link");
    if (!/^[a-z2-7]{8,16}$/.test(id)) return unknown();
    await mirror.update(key.invite(id), (current: InviteRecord | undefined) => {
      if (current === undefined || current.hash !== sha256(token)) return unknown();
      if (current.expiresWallMs <= world.clock.wallMs())
        fail("permission_denied", "the invite has expired: ask for a new link");
      if (current.usesLeft <= 0) fail("permission_denied", "the invite is used up: ask for a new link");
      return { ...current, usesLeft: current.usesLeft - 1 };
    });
    return id;
  }

  async invite(uses: number, lifetimeMs: number, note: string): Promise<Invite> {
    const { mirror, world } = this.#context;
    const life = lifetimeMs || inviteLifetimeMsDefault;
    if (life > inviteLifetimeMsMax) fail("invalid_argument", "an invite lasts a year at most");
    if (uses > usesMax) fail("invalid_argument", `an invite is for ${usesMax} machines at most`);
    const id = base32(world.chance.bytes(5));
    const token = `${id}-${base32(world.chance.bytes(15))}`;
    const expiresWallMs = world.clock.wallMs() + life;
    const record = { id, hash: sha256(token), usesLeft: uses || 1, expiresWallMs, note: note.slice(0, noteLengthMax) };
    await mirror.update(key.invite(id), () => record);
    return { token, expiresWallMs };
  }

  admit(pnode: PNodeId): Promise<void> {
    return this.#write(pnode, { standing: "admitted", reason: "" });
  }

  revoke(pnode: PNodeId, reason: string): Promise<void> {
    return this.#write(pnode, { standing: "revoked", reason: reason.slice(0, noteLengthMax) });
  }

  async #write(pnode: PNodeId, change: Omit<MemberRecord, "pnode" | "sinceWallMs">): Promise<void> {
    const { mirror, world } = this.#context;
    await mirror.update(key.member(pnode), () => ({ pnode, ...change, sinceWallMs: world.clock.wallMs() }));
  }
}
