import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { create } from "@bufbuild/protobuf";
import { EventSchema } from "../../protocol/gen/dcnr/v1/common_pb.ts";
import { GetStatusResponseSchema, PNodeSchema, VNodeSchema } from "../../protocol/gen/dcnr/v1/fleet_pb.ts";
import { ModelSchema } from "../../protocol/gen/dcnr/v1/inference_pb.ts";
import { SessionSchema } from "../../protocol/gen/dcnr/v1/session_pb.ts";
import { afterKey, noChoices } from "./choices.ts";
import { type Choices, type Known, topLines, type Window } from "./view.ts";

const known = (machines = 2): Known => ({
  address: "127.0.0.1:7700",
  status: create(GetStatusResponseSchema, {
    pnodesOnline: machines,
    sessions: [
      {
        id: "mlp-1",
        status: "running",
        step: 50n,
        totalSteps: 100n,
        loss: 1.5,
        samplesPerSecond: 20,
        stepsPerSecond: 10,
        settings: { network: "mlp", dataset: "mnist", batch: 2 },
      },
    ],
    waits: [{ sentence: "birch says nothing; 58 VNodes wait" }],
  }),
  pnodes: Array.from({ length: machines }, (_, index) =>
    create(PNodeSchema, {
      id: `p${index}`,
      name: index === 0 ? "zelkova" : `birch-${index}`,
      status: index === 0 ? "lost" : "online",
      owner: "ann",
      region: "eu",
    }),
  ),
  vnodes: [create(VNodeSchema, { id: "head", pnode: "p1", step: 50n })],
  models: [create(ModelSchema, { name: "gpt", status: "ready", replicas: 2 })],
  events: [create(EventSchema, { level: "warn", kind: "pnode.lost", message: "zelkova\u001b[2J is lost" })],
  losses: new Map([["mlp-1", [3, 2, 1]]]),
});

const window = (change: Partial<Window> = {}): Window => ({
  width: 240,
  unicode: true,
  paint: (_, text) => text,
  ...change,
});

const shown = (choices: Partial<Choices> = {}, change: Partial<Window> = {}, machines = 2) =>
  topLines(known(machines), { ...noChoices, ...choices }, window(change));

describe("dcnr top", () => {
  it("shows every column in a wide window: names, curve, time left, models, one sentence for what waits", () => {
    const text = shown().join("\n");
    for (const part of [
      "waits: birch says nothing",
      "█▅▁",
      "5.0 s",
      "MODEL",
      "gpt",
      "head@50",
      "REGION",
      "OWNER",
      "ROUND TRIP",
    ])
      assert.ok(text.includes(part), `${part} is missing in\n${text}`);
    assert.ok(text.indexOf("birch-1") < text.indexOf("zelkova"), "those that are lost come last");
    assert.ok(!text.includes("\u001b"), "nobody paints the terminal by an event");
  });

  it("puts what runs first, and lets all but the newest of what is over step back", () => {
    const busy = known();
    for (let index = 0; index < 40; index += 1)
      busy.status.sessions.unshift(
        create(SessionSchema, { id: `old-${index}`, status: "done", createdWallMs: BigInt(-index) }),
      );
    const text = topLines(busy, noChoices, window({ height: 24 })).join("\n");
    assert.match(text, /mlp-1[\s\S]*old-0[\s\S]*old-2[\s\S]*and 37 that are over[\s\S]*birch-1/);
    assert.ok(!text.includes("old-3"));
  });

  it("leaves the least important columns out where the window is narrow, and never breaks a line", () => {
    const lines = shown({}, { width: 60 });
    for (const line of lines) assert.ok(line.length <= 60, line);
    const text = lines.join("\n");
    assert.ok(!text.includes("OWNER") && !text.includes("DATASET"));
    assert.match(text, /mlp-1 +running +50\/100/);
    assert.match(text, /birch-1 +online/);
  });

  it("keeps to the window's height, scrolls machines and says how many there are", () => {
    const first = shown({}, { height: 20 }, 100);
    assert.equal(first.length, 20);
    assert.match(first.at(-1) ?? "", /q ends.*100 machines/);
    const later = shown({ offset: 30 }, { height: 20 }, 100);
    assert.equal(later.length, 20);
    assert.notDeepEqual(first, later);
    assert.ok(shown({ offset: 99 }, { height: 20 }, 100).join("\n").includes("zelkova"), "the end can be reached");
  });

  it("puts tones around texts that are cut and padded, so that colours move nothing", () => {
    const painted = shown({}, { paint: (tone, text) => `<${tone}>${text}</>`, width: 80 });
    const plain = shown({}, { width: 80 });
    const without = painted.map((line) => line.replace(/<[a-z]*>|<\/>/g, "").trimEnd());
    assert.deepEqual(
      without,
      plain.map((line) => line.trimEnd()),
    );
  });

  it("filters by what was typed", () => {
    let choices: Choices | undefined = noChoices;
    for (const key of ["/", "Z", "e", "x", "backspace", "l", "enter"]) choices = afterKey(choices as Choices, key, 2);
    assert.deepEqual(choices, { filter: "Zel", typing: false, offset: 0 });
    const text = shown(choices).join("\n");
    assert.ok(text.includes("zelkova") && !text.includes("birch-1") && !text.includes("mlp-1"));
    assert.ok(text.includes('No session has "Zel" in it.'), "there are others");
  });

  it("ends with q, but not while a filter is typed, and with Ctrl-C always", () => {
    assert.equal(afterKey(noChoices, "q", 2), undefined);
    assert.equal(afterKey({ ...noChoices, typing: true }, "q", 2)?.filter, "q");
    assert.equal(afterKey({ ...noChoices, typing: true }, "interrupt", 2), undefined);
    assert.equal(afterKey(noChoices, "up", 2)?.offset, 0);
    assert.equal(afterKey({ ...noChoices, offset: 1 }, "down", 2)?.offset, 1);
  });
});
