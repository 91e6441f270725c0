// Standings in the store, and what placement sees of them in the PNodes' own records. Faults are noted once, whoever notes
// them and however often.

import type { PNodeId } from "../../core/ids.ts";
import type { Context } from "../context.ts";
import type { FaultRecord, StandingRecord } from "../records/checking.ts";
import type { PNodeRecord } from "../records/machines.ts";
import { pnodeName } from "../records/names.ts";
import { key, prefix } from "../records/store-keys.ts";
import { coolOffMs, mayReturn, placementTrust, readmitted, standingAtFirst, withFault } from "./standing.ts";

export class Standings {
  readonly #context: Context;
  /** Those that come back when they have been out for long enough. */
  readonly #returning = new Set<PNodeId>();

  constructor(context: Context) {
    this.#context = context;
    const { mirror } = context;
    mirror.on("standing", (now) => now && this.#show(now));
    // A PNode that was forgotten and comes back is still who it was.
    mirror.on("pnode", (now) => {
      const standing = now && mirror.get(key.standing(now.id));
      if (now && standing && !isShown(now, standing)) this.#show(standing);
      if (now?.examinedWallMs !== undefined && standing) this.#examined(standing, now.examinedWallMs);
    });
  }

  of(pnode: PNodeId): StandingRecord {
    return this.#context.mirror.get(key.standing(pnode)) ?? standingAtFirst(pnode);
  }

  all(): StandingRecord[] {
    return this.#context.mirror.under(prefix.standings);
  }

  async change(pnode: PNodeId, change: (standing: StandingRecord) => StandingRecord | undefined): Promise<void> {
    await this.#context.mirror.update(key.standing(pnode), (current) => change(current ?? standingAtFirst(pnode)));
  }

  /** It gets no work until it is known why its result was another. */
  async doubt(pnode: PNodeId, reason: string): Promise<void> {
    const wallMs = this.#context.world.clock.wallMs();
    await this.change(pnode, (standing) =>
      standing.barred ? undefined : { ...standing, barred: { kind: "doubt", reason, wallMs } },
    );
  }

  async clear(pnode: PNodeId): Promise<void> {
    await this.change(pnode, ({ barred, ...standing }) => (barred?.kind === "doubt" ? standing : undefined));
  }

  async fault(pnode: PNodeId, fault: FaultRecord, numericsClass: string): Promise<void> {
    const { mirror, events } = this.#context;
    let isNew = false;
    await this.change(pnode, (standing) => {
      isNew = !standing.faults.some(({ story, wallMs }) => story === fault.story && wallMs === fault.wallMs);
      if (!isNew) return undefined;
      const { barred, ...rest } = standing;
      return withFault(barred?.kind === "doubt" ? rest : standing, fault, numericsClass);
    });
    if (!isNew) return;
    const name = pnodeName(mirror, pnode);
    const repeat = fault.command === "" ? "" : `. Repeat it: ${fault.command}`;
    events.emit("error", `pnode.${fault.kind}`, `PNode ${name}: ${fault.story}${repeat}`, { pnode });
  }

  /** Its owner has examined it: it may come back, now or when it has been out for long enough. */
  #examined({ pnode, barred }: StandingRecord, examinedWallMs: number): void {
    const { tasks, world, mirror, events } = this.#context;
    if (barred?.kind !== "quarantined" || examinedWallMs <= barred.wallMs) return;
    const returns = () =>
      tasks.insist(`the return of ${pnode}`, async () => {
        let isBack = false;
        await this.change(pnode, (standing) => {
          const nowWallMs = world.clock.wallMs();
          isBack = mayReturn(standing, examinedWallMs, nowWallMs);
          return isBack ? readmitted(standing, nowWallMs) : undefined;
        });
        if (isBack)
          events.emit("info", "pnode.readmitted", `PNode ${pnodeName(mirror, pnode)} was examined, and begins anew`, {
            pnode,
          });
      });
    const leftMs = barred.wallMs + coolOffMs - world.clock.wallMs();
    if (leftMs <= 0) returns();
    else if (!this.#returning.has(pnode)) {
      this.#returning.add(pnode);
      tasks.after(leftMs, () => {
        this.#returning.delete(pnode);
        returns();
      });
    }
  }

  #show(standing: StandingRecord): void {
    const { mirror, tasks } = this.#context;
    const record = mirror.get(key.pnode(standing.pnode));
    if (record === undefined || isShown(record, standing)) return;
    tasks.insist(`the standing of ${standing.pnode}`, () =>
      mirror.update(key.pnode(standing.pnode), (current) => {
        const newest = mirror.get(key.standing(standing.pnode)) ?? standing;
        if (current === undefined || isShown(current, newest)) return undefined;
        const { barred: _, excluded: __, ...rest } = current;
        return { ...rest, ...shownOf(newest) };
      }),
    );
  }
}

function shownOf(standing: StandingRecord): Pick<PNodeRecord, "trust" | "barred" | "excluded"> {
  const { barred, excluded } = standing;
  return {
    trust: placementTrust(standing),
    ...(barred ? { barred: barred.reason } : {}),
    ...(excluded.length > 0 ? { excluded } : {}),
  };
}

function isShown(record: PNodeRecord, standing: StandingRecord): boolean {
  const shown = shownOf(standing);
  return (
    record.trust === shown.trust &&
    record.barred === shown.barred &&
    String(record.excluded ?? []) === String(shown.excluded ?? [])
  );
}
