import { strict as assert } from "node:assert";
import { it } from "node:test";
import { asideHere } from "../../core/aside.ts";
import { DcnrError } from "../../core/errors.ts";
import { sha256 } from "../../core/hash.ts";
import type { OrchestratorId, PNodeId, Sha256 } from "../../core/ids.ts";
import { writeInputs } from "../../trust/lists.ts";
import type { Context } from "../context.ts";
import type { AnswerTask, AuditTask } from "../records/checking.ts";
import type { Compiled } from "../sessions/compiled.ts";
import { BlobRights } from "./blob-rights.ts";

const session = "mlp-3f2a9c1b7d04";
const auditor = "x" as PNodeId;
const message = sha256("a message that went in");
const [before, after, outputs] = ["before", "after", "outputs"].map((word) => sha256(word)) as [Sha256, Sha256, Sha256];
const inputs = writeInputs({
  ...{ session, vnode: "a", from: 0, to: 2, keys: {} },
  messages: [{ key: "0/0/f/e", hash: message, sender: "o", life: "", signature: "" }],
});

/** One interval that an owner has stated and a stranger is asked to repeat. */
function rightsWith(task: Partial<AuditTask>): BlobRights {
  const statement = { session, vnode: "a", from: 0, to: 2, before, after, inputs: inputs.hash, outputs };
  const tasks = [{ pnode: auditor, role: "audit", trusted: false, sinceWallMs: 0, ...task }];
  const records: Record<string, unknown> = {
    session: { id: session, vnodes: ["a"], status: "running", identity: {} },
    vnode: { members: [{ pnode: "o" }], durable: { 0: { hash: before }, 2: { hash: after } } },
  };
  const recordOf = async (name: unknown) => records[String(name).split("/")[0] as string];
  const context = {
    world: { clock: { monotonicMs: () => 0 } },
    aside: asideHere,
    mirror: {
      get: (name: unknown) => records[String(name).split("/")[0] as string],
      read: recordOf,
      under: () => [{ audits: { a: { stated: [{ pnode: "o", statement }], tasks } } }],
    },
    blobs: {
      states: {
        get: async (hash: Sha256) => {
          if (hash === inputs.hash) return inputs.content;
          throw new DcnrError("not_found", `there is no blob ${hash}`);
        },
      },
    },
  } as unknown as Context;
  return new BlobRights(context, {} as Compiled, { isCrew: () => false, isAlive: () => false });
}

const mayRead = async (rights: BlobRights, hash: string): Promise<boolean> => {
  try {
    await rights.mayReadState(auditor, session, hash as Sha256);
    return true;
  } catch {
    return false;
  }
};

it("an auditor reads what went into an interval, and nothing of what came out, before it has said what it found", async () => {
  const rights = rightsWith({});
  const readable = await Promise.all([before, inputs.hash, message, after, outputs].map((one) => mayRead(rights, one)));
  assert.deepEqual(readable, [true, true, true, false, false]);
});

it("whoever repeats an answer reads the model until the orchestrator that asked is done or dead, whatever clocks say", async () => {
  const replica = "model@0123456789ab";
  const weights = sha256("weights");
  const reads = async (tasks: readonly AnswerTask[]) => {
    const identity = { definition: "d", states: { a: { hash: weights } } };
    const records: Record<string, unknown> = {
      replica: { id: replica, vnodes: ["a"], status: "running", identity },
      checks: { tasks },
    };
    const get = (name: unknown) => records[String(name).split("/")[0] as string];
    const context = {
      world: { clock: { monotonicMs: () => 0 } },
      mirror: { get, read: async (name: unknown) => get(name), under: () => [] },
    } as unknown as Context;
    const plan = { edges: [], order: ["a"], vnodes: [{ id: "a", head: true }] };
    const facts = { isCrew: () => false, isAlive: (_: string, incarnation: string) => incarnation === "lives" };
    const rights = new BlobRights(context, { plan: async () => plan } as unknown as Compiled, facts);
    try {
      await rights.mayReadState(auditor, replica, weights as Sha256);
      return true;
    } catch (thrown) {
      return thrown instanceof DcnrError ? thrown.code : String(thrown);
    }
  };
  const task = { pnode: auditor, orchestrator: "o2" as OrchestratorId, incarnation: "lives", number: 1 };
  assert.notEqual(await reads([task]), "permission_denied");
  assert.equal(await reads([{ ...task, incarnation: "died" }]), "permission_denied");
  assert.equal(await reads([{ ...task, pnode: "y" as PNodeId }]), "permission_denied");
  assert.equal(await reads([]), "permission_denied");
});

it("whoever is done reads nothing more, and only whoever measures how far somebody was off reads what that came to", async () => {
  assert.equal(await mayRead(rightsWith({ result: "found" }), before), false);
  assert.equal(await mayRead(rightsWith({ gaveUp: "did not answer" }), before), false);
  assert.equal(await mayRead(rightsWith({ role: "measure", against: after }), after), true);
  assert.equal(await mayRead(rightsWith({ role: "measure", against: after }), outputs), false);
});
