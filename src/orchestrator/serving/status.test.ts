// What is said of a model while it comes up: ready means that it answers, not that somebody was told to.

import assert from "node:assert/strict";
import { test } from "node:test";
import type { ModelRecord } from "../records/sessions.ts";
import { type StatusNeeds, statusOf, weightsOf } from "./status.ts";

interface Replica {
  readonly status?: string;
  readonly reason?: string;
  /** Of its two VNodes; undefined: not placed. */
  readonly phases: readonly (string | undefined)[];
  readonly detail?: string;
  readonly weightErrors?: readonly (number | undefined)[];
}

function modelWith(replicas: readonly Replica[]) {
  const ids = replicas.map((_, index) => `model@${index}`);
  const replicaOf = (id: string) => replicas[ids.indexOf(id)] as Replica;
  const record = (id: string) => ({ reason: "", status: "running", ...replicaOf(id), id, vnodes: ["a", "b"] });
  const needs = {
    context: { mirror: { get: (key: string) => record(key.slice("replica/".length)) } },
    assignments: { locations: ({ id }: { id: string }) => replicaOf(id).phases.filter((phase) => phase !== undefined) },
    views: {
      vnode: ({ id }: { id: string }, vnode: string) => {
        const { phases, detail = "", weightErrors } = replicaOf(id);
        const at = vnode === "a" ? 0 : 1;
        const phase = phases[at];
        return [{ id: vnode, phase, detail: phase === "failed" ? detail : "", weightError: weightErrors?.[at] }];
      },
    },
  } as unknown as StatusNeeds;
  return { needs, model: { replicas: ids } as unknown as ModelRecord };
}

function statusWith(...replicas: Replica[]) {
  const { needs, model } = modelWith(replicas);
  return statusOf(needs, model);
}

test("a model is ready when every VNode of a replica has its weights", () => {
  const placing: Replica = { phases: ["serving", undefined] };
  const loading: Replica = { phases: ["serving", "loading"] };
  const ready: Replica = { phases: ["serving", "serving"] };
  assert.deepEqual(statusWith(), { status: "stopped", reason: "" });
  assert.deepEqual(statusWith(placing), { status: "placing", reason: "" });
  assert.deepEqual(statusWith(placing, loading), { status: "loading", reason: "1 of 2 VNodes load their weights" });
  assert.equal(statusWith({ phases: ["", "loading"] }).status, "loading", "nothing was heard of a VNode yet");
  assert.deepEqual(statusWith(placing, loading, ready), { status: "ready", reason: "" });
});

test("a model that cannot answer says why", () => {
  const broken: Replica = { phases: ["failed", "serving"], detail: "the blob is gone" };
  assert.deepEqual(statusWith(broken), { status: "loading", reason: "VNode a: the blob is gone" });
  const waiting: Replica = { status: "waiting", reason: "needs 3 GB", phases: [undefined, undefined] };
  assert.deepEqual(statusWith(waiting), { status: "waiting", reason: "needs 3 GB" });
  const failed: Replica = { status: "failed", reason: "no state", phases: [undefined, undefined] };
  assert.deepEqual(statusWith(failed), { status: "failed", reason: "no state" });
});

test("what weights of few bits lost is told when a replica has measured all of it, and the largest of its VNodes counts", () => {
  const weights = (format: "4bit" | undefined, ...replicas: Replica[]) => {
    const { needs, model } = modelWith(replicas);
    return weightsOf(needs, { ...model, ...(format && { weights: format }) });
  };
  const loading: Replica = { phases: ["serving", "loading"], weightErrors: [0.5, undefined] };
  const ready: Replica = { phases: ["serving", "serving"], weightErrors: [0.02, 0.08] };
  const silent: Replica = { phases: ["serving", "serving"] };
  assert.deepEqual(weights("4bit", loading), { weights: "4bit" }, "the rest may have lost more");
  assert.deepEqual(weights("4bit", silent), { weights: "4bit" }, "an older PNode measures nothing");
  assert.deepEqual(weights("4bit", loading, ready), { weights: "4bit", weightError: 0.08 });
  assert.deepEqual(weights(undefined, ready), {});
});
