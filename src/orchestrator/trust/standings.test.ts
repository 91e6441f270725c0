import { strict as assert } from "node:assert";
import { it } from "node:test";
import type { PNodeId } from "../../core/ids.ts";
import type { Context } from "../context.ts";
import type { StandingRecord } from "../records/checking.ts";
import type { PNodeRecord } from "../records/machines.ts";
import { key } from "../records/store-keys.ts";
import { coolOffMs, levelOf, standingAtFirst, withFault } from "./standing.ts";
import { Standings } from "./standings.ts";

const pnode = "p" as PNodeId;
const barredWallMs = 1_000;
const lie = { kind: "lie", wallMs: barredWallMs, after: 0, story: "a lie", command: "dcnr audit s a 0" } as const;

/** One machine in quarantine, an orchestrator that knows it, and a clock. */
function scene(nowWallMs: number) {
  let now = nowWallMs;
  let standing: StandingRecord = withFault(standingAtFirst(pnode), lie, "c");
  const later: { readonly atMs: number; readonly then: () => void }[] = [];
  const running: Promise<unknown>[] = [];
  const heard: string[] = [];
  const listeners = new Map<string, (record: unknown) => void>();
  const context = {
    mirror: {
      on: (kind: string, listener: (record: unknown) => void) => listeners.set(kind, listener),
      get: (name: unknown) => (JSON.stringify(name) === JSON.stringify(key.standing(pnode)) ? standing : undefined),
      update: async (_name: unknown, change: (record: StandingRecord) => StandingRecord | undefined) => {
        standing = change(standing) ?? standing;
        return { record: standing, written: true };
      },
    },
    world: { clock: { wallMs: () => now } },
    events: { emit: (_level: string, kind: string) => heard.push(kind) },
    tasks: {
      insist: (_name: string, task: () => Promise<unknown>) => running.push(task()),
      after: (ms: number, then: () => void) => later.push({ atMs: now + ms, then }),
    },
  } as unknown as Context;
  new Standings(context);
  return {
    heard,
    level: () => levelOf(standing),
    registers: async (examinedWallMs: number) => {
      const barred = standing.barred?.reason;
      listeners.get("pnode")?.({ id: pnode, trust: "untrusted", barred, examinedWallMs } as unknown as PNodeRecord);
      await Promise.all(running);
    },
    waitsUntil: async (wallMs: number) => {
      now = wallMs;
      for (const { atMs, then } of later.splice(0)) if (atMs <= now) then();
      await Promise.all(running);
    },
    get waiting() {
      return later.length;
    },
  };
}

it("a machine that was examined after it was quarantined begins anew once it has been out for long enough", async () => {
  const at = scene(barredWallMs + 10);
  await at.registers(barredWallMs + 5);
  await at.registers(barredWallMs + 6);
  assert.equal(at.level(), "quarantined");
  assert.equal(at.waiting, 1, "however often it registers");
  await at.waitsUntil(barredWallMs + coolOffMs);
  assert.equal(at.level(), "newcomer");
  assert.deepEqual(at.heard, ["pnode.readmitted"]);
});

it("a machine that was out for long enough begins anew at once; one that was examined before it lied does not", async () => {
  const late = scene(barredWallMs + 2 * coolOffMs);
  await late.registers(barredWallMs - 1);
  assert.equal(late.level(), "quarantined");
  await late.registers(barredWallMs + coolOffMs);
  assert.equal(late.level(), "newcomer");
});
