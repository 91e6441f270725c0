// PNodes at the door: everything that is asked before a registration is written, and the writing of it. Whoever comes too often,
// may not lend, or wears the id of a machine that is here and alive is refused with a sentence.

import { fail } from "../../../core/errors.ts";
import type { PNodeId } from "../../../core/ids.ts";
import type { AttachRequest, Register } from "../../../protocol/gen/dcnr/v1/pnode_pb.ts";
import type { CallContext } from "../../../protocol/network.ts";
import type { Context } from "../../context.ts";
import type { PNodeRecord } from "../../records/machines.ts";
import { pnodeName } from "../../records/names.ts";
import { key } from "../../records/store-keys.ts";
import type { Flapping } from "../believed/flapping.ts";
import { NewcomersDoor } from "../believed/newcomers.ts";
import type { Attachment } from "./attachment.ts";
import type { Members } from "./members.ts";
import { checkRegister, pnodeOf, registered } from "./registration.ts";
import { isAlive } from "./standing-step.ts";

export interface ArrivalsNeeds {
  readonly context: Context;
  readonly flapping: Flapping;
  readonly members: Members;
  readonly attachments: ReadonlyMap<PNodeId, Attachment>;
  /** Whether it answers when it is called back before it is registered. */
  callBack(pnode: PNodeId, routes: readonly string[]): Promise<boolean>;
  /** Whether it hosts what no record says: it took that over while no orchestrator was there. */
  hasTakenOver(pnode: PNodeId, register: Register): boolean;
}

export class Arrivals {
  readonly #needs: ArrivalsNeeds;
  readonly #door: NewcomersDoor;
  /** Registrations so far, and those whose record is being written. */
  #count = 0;
  readonly #registering = new Set<string>();

  constructor(needs: ArrivalsNeeds) {
    this.#needs = needs;
    this.#door = new NewcomersDoor(needs.context.world.clock);
  }

  /** Whether the attachment of that name has written its record and is not there yet. */
  isRegistering(attachment: string): boolean {
    return this.#registering.has(attachment);
  }

  /** Writes the record that follows from the first message of a stream; `begin` makes the attachment that it names. */
  async admit<T>(
    message: AttachRequest,
    { caller }: CallContext,
    begin: (record: PNodeRecord, register: Register) => T,
  ): Promise<T> {
    const { context, members, callBack, hasTakenOver } = this.#needs;
    const { mirror } = context;
    if (message.event.case !== "register")
      fail("failed_precondition", "the first message on the stream must be `register`");
    const register = message.event.value;
    const id = pnodeOf(caller);
    checkRegister(id, register, context.address);
    this.#throttle(id);
    await members.welcome(id, register.invite);
    if (!mirror.get(key.pnode(id)) && !(await mirror.read(key.pnode(id)))) this.#door.enter(caller.address);
    const known = mirror.get(key.pnode(id));
    const isKnown = known?.reached !== undefined && known.incarnation === register.incarnation;
    const answered = !isKnown && (await callBack(id, register.routes));
    this.#refuseDuplicate(id, register);
    const attachment = `${context.incarnation}.${++this.#count}`;
    this.#registering.add(attachment);
    try {
      const { id: orchestrator, incarnation: orchestratorIncarnation } = context;
      const lifeBefore = known ? known.life : ((await mirror.read(key.room(id)))?.life ?? 0);
      const whereabouts = {
        orchestrator,
        orchestratorIncarnation,
        attachment,
        lifeBefore,
        peer: caller.address,
        nowWallMs: context.world.clock.wallMs(),
        uncounted: hasTakenOver(id, register),
      };
      const { record } = await mirror.update(key.pnode(id), (current) =>
        registered(current, id, register, whereabouts, answered),
      );
      return begin(record as PNodeRecord, register);
    } finally {
      this.#registering.delete(attachment);
    }
  }

  #throttle(id: PNodeId): void {
    const { context, flapping } = this.#needs;
    const waitMs = flapping.attempt(id);
    if (waitMs === 0) return;
    const count = flapping.count(id);
    if (count % 10 === 3)
      context.events.emit(
        "warn",
        "pnode.flapping",
        `PNode ${pnodeName(context.mirror, id)} registered ${count} times within a minute: refused for now`,
        { pnode: id },
      );
    fail("resource_exhausted", `PNode ${id} registers too often: try again in ${Math.ceil(waitMs / 1000)} s`);
  }

  /** A copy of a PNode's directory would otherwise fight with the original for its VNodes. */
  #refuseDuplicate(id: PNodeId, register: Register): void {
    const { context, attachments } = this.#needs;
    const known = attachments.get(id);
    if (!known || known.incarnation === register.incarnation) return;
    if (!isAlive(known.standing, context.world.clock.monotonicMs(), context.timings)) return;
    const message = `another PNode with the id ${id} is attached and alive: give this one a directory of its own`;
    context.events.emit("warn", "pnode.duplicate", `${register.routes[0]}: ${message}`, { pnode: id });
    fail("already_exists", message);
  }
}
