// Which replica is asked: the one that should answer first, by what was measured, by its load, and by what it has read before.

import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { SeededChance } from "../../../simulation/world/chance.ts";
import type { ReplicaId } from "../../core/ids.ts";
import type { ModelRecord } from "../records/sessions.ts";
import { type ReplicaNeeds, Replicas } from "./replicas.ts";

const [near, far, third] = ["m@near", "m@far", "m@third"] as ReplicaId[] as [ReplicaId, ReplicaId, ReplicaId];

function open(): Replicas {
  const chance = new SeededChance(1, "replicas");
  const needs = { context: { world: { chance }, mirror: { get: () => ({ status: "running" }) } } };
  return new Replicas(needs as unknown as ReplicaNeeds);
}

function shares(replicas: Replicas, ids: readonly ReplicaId[], prompt: readonly number[] = []): Map<ReplicaId, number> {
  const model = { name: "m", replicas: ids } as unknown as ModelRecord;
  const counts = new Map<ReplicaId, number>(ids.map((id) => [id, 0]));
  for (let i = 0; i < 400; i++) {
    const id = replicas.choose(model, prompt);
    counts.set(id, (counts.get(id) as number) + 1);
  }
  return counts;
}

const text = (seed: number, length: number) => Array.from({ length }, (_, i) => (i * 31 + seed) % 997);

describe("the choice of a replica", () => {
  it("spreads over replicas of which nothing is known", () => {
    for (const count of shares(open(), [near, far]).values()) assert.ok(count > 120, `${count} of 400`);
  });

  it("prefers the one whose tokens come sooner, and asks the other only when it was drawn alone", () => {
    const replicas = open();
    replicas.choice.observe(near, 10);
    replicas.choice.observe(far, 200);
    const counts = shares(replicas, [near, far]);
    assert.ok((counts.get(near) as number) > 270, `${counts.get(near)} of 400`);
    assert.ok((counts.get(far) as number) > 0, "it is measured again now and then");
  });

  it("does not send everybody to the nearest: load counts against it", () => {
    const replicas = open();
    replicas.choice.observe(near, 10);
    replicas.choice.observe(far, 12);
    for (let i = 0; i < 8; i++) replicas.occupy(near);
    assert.ok((shares(replicas, [near, far]).get(far) as number) > 270);
  });

  it("goes back to the replica that has read the prompt's beginning, where it is as near", () => {
    const replicas = open();
    for (const id of [near, far, third]) replicas.choice.observe(id, 20);
    const chat = text(1, 200);
    replicas.choice.asked(far, "m", chat);
    assert.equal(shares(replicas, [near, far, third], [...chat, 5, 6, 7]).get(far), 400);
    assert.ok((shares(replicas, [near, far, third], text(2, 200)).get(far) as number) < 300, "another text is free");
    assert.ok(
      (shares(replicas, [near, far, third], [...text(9, 32), ...chat]).get(far) as number) < 300,
      "the same words elsewhere are no beginning",
    );
  });

  it("leaves it where another answers sooner although it has to read everything", () => {
    const replicas = open();
    replicas.choice.observe(near, 5);
    replicas.choice.observe(far, 200);
    const chat = text(1, 96);
    replicas.choice.asked(far, "m", chat);
    assert.ok((shares(replicas, [near, far], chat).get(near) as number) > 270);
  });

  it("goes past one that is crowded, and one that has no part any more", () => {
    const replicas = open();
    const chat = text(1, 200);
    replicas.choice.asked(far, "m", chat);
    assert.equal(shares(replicas, [near, third], chat).get(far), undefined);
    for (let i = 0; i < 16; i++) replicas.occupy(far);
    assert.ok((shares(replicas, [near, far], chat).get(near) as number) > 270);
  });
});
