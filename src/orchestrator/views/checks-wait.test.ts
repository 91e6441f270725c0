import { strict as assert } from "node:assert";
import { describe, it } from "node:test";
import type { PNodeId, VNodeId } from "../../core/ids.ts";
import type { Context } from "../context.ts";
import type { AuditTask, IntervalRecord } from "../records/checking.ts";
import type { PNodeRecord } from "../records/machines.ts";
import type { SessionRecord } from "../records/sessions.ts";
import { type AuditorNeeds, Auditors } from "../trust/auditors.ts";
import { standingAtFirst } from "../trust/standing.ts";
import { checksWait } from "./checks-wait.ts";

interface Machine {
  readonly trusted?: boolean;
  readonly free: number;
  readonly owner?: string;
}

/** A session of one VNode that p computed up to step 4 half a minute ago, and what it waits for. */
function waits(machines: Readonly<Record<string, Machine>>, assurance: "checked" | "proven", tasks: AuditTask[] = []) {
  const identity = { bits: 1, numerics: "native" };
  const policy = { assurance, checkpointEvery: 4 };
  const session = { id: "s", identity, policy, numericsClass: "avx2", vnodes: ["v"] } as unknown as SessionRecord;
  const interval = {
    ...{ session: "s", from: 0, to: 4, turn: 0, draw: "d", openedWallMs: 0 },
    audits: { v: { stated: [{ pnode: "p" }], tasks, ready: true, accused: [] } },
  } as unknown as IntervalRecord;
  const facts = { numerics: [{ engine: "native", class: "avx2" }] };
  const pnodes = Object.entries(machines).map(
    ([id, { owner = id }]) => ({ id, owner, bits: 1, status: "online", facts }) as unknown as PNodeRecord,
  );
  const records = new Map<string, unknown>([["vnode/s/v", { memoryBytes: 64 << 20, members: [{ pnode: "p" }] }]]);
  for (const one of pnodes) records.set(`pnode/${one.id}`, one);
  const mirror = {
    get: (name: string) => records.get(name),
    under: (prefix: string) => (prefix.startsWith("interval/") ? [interval] : pnodes),
  };
  const context = { mirror, world: { clock: { wallMs: () => 30_000 } } } as unknown as Context;
  const fleet = new Map(Object.entries(machines).map(([id, { free }]) => [id, { memoryFreeBytes: free }]));
  const auditors = new Auditors(context, {
    capacity: { fleet, vnodesOn: () => new Set() },
    compiled: { neighbours: () => new Map([["v" as VNodeId, new Set()]]) },
    standings: { of: (id: PNodeId) => ({ ...standingAtFirst(id), trusted: machines[id]?.trusted === true }) },
  } as unknown as AuditorNeeds);
  return checksWait(context, auditors, session);
}

describe("a session that waits to be checked says why", () => {
  const roomy = 1 << 30;
  const owner = { free: roomy };

  it("where nobody is trusted, where those who are have no room, and where all are of one owner", () => {
    const nobody = waits({ p: owner, a: { free: roomy } }, "proven");
    assert.match(
      nobody?.sentence ?? "",
      /VNode v, steps 0 to 4, has waited .*: no trusted machine of class avx2 is here/,
    );
    assert.match(nobody?.remedy ?? "", /dcnr trust/);
    const full = waits({ p: owner, t: { trusted: true, free: 1 }, a: { free: roomy } }, "proven");
    assert.match(full?.reason ?? "", /none of 1 that may repeat it has the 64 MB of memory free/);
    const one = waits({ p: { ...owner, owner: "ann" }, a: { free: roomy, owner: "ann" } }, "checked");
    assert.match(one?.reason ?? "", /are of the same owner/);
  });

  it("and nothing where somebody could, or is at it", () => {
    assert.equal(waits({ p: owner, t: { trusted: true, free: roomy } }, "proven"), undefined);
    const task = { pnode: "t" as PNodeId, role: "audit", trusted: true, sinceWallMs: 0 } as const;
    assert.equal(waits({ p: owner, t: { trusted: true, free: 1 } }, "proven", [task]), undefined);
  });
});
