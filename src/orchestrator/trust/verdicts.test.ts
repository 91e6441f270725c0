import { strict as assert } from "node:assert";
import { it } from "node:test";
import type { PNodeId } from "../../core/ids.ts";
import type { Context } from "../context.ts";
import type { SessionStatus } from "../records/sessions.ts";
import type { Standings } from "./standings.ts";
import { Verdicts } from "./verdicts.ts";

/** Whom a network clears that doubts `p`, whose accusation in a session of this status is open or not. */
async function cleared(status: SessionStatus | undefined, isOpen: boolean): Promise<readonly string[]> {
  const accused = { pnode: "p" as PNodeId, ...(isOpen ? {} : { verdict: "cleared" }) };
  const context = {
    mirror: {
      under: () => [{ session: "s", audits: { a: { accused: [accused] } } }],
      get: () => (status === undefined ? undefined : { status }),
    },
  } as unknown as Context;
  const names: string[] = [];
  const standings = {
    all: () => [
      { pnode: "p", barred: { kind: "doubt" } },
      { pnode: "q", barred: { kind: "banned" } },
    ],
    clear: async (pnode: string) => void names.push(pnode),
  } as unknown as Standings;
  await new Verdicts(context, standings).endDoubts();
  return names;
}

it("a machine stays in doubt while a session may still find out", async () => {
  for (const status of ["running", "waiting", "suspended"] as const) assert.deepEqual(await cleared(status, true), []);
  assert.deepEqual(await cleared("running", false), ["p"]);
});

it("a machine does not stay in doubt for ever because a session ended before anybody found out", async () => {
  for (const status of ["done", "failed", "deleted", undefined] as const)
    assert.deepEqual(await cleared(status, true), ["p"], status);
});
