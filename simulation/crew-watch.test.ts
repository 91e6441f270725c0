import assert from "node:assert/strict";
import { test } from "node:test";
import type { CrewNews } from "../src/protocol/gen/dcnr/v1/session_peers_pb.ts";
import { CrewWatch } from "./autonomy.ts";
import { Violations } from "./checks/checkers.ts";
import type { Records } from "./checks/records.ts";
import type { Answer } from "./world/network.ts";
import { SimulatedWorld } from "./world/world.ts";

/** One PNode trains alone, as after a split; what it keeps on its disk, and what is thought of what it says. */
function alone() {
  const world = new SimulatedWorld(1);
  const { incarnation } = world.start("p1");
  const files = new Map<string, Uint8Array>();
  const record = { status: "running", line: 0, vnodes: ["v"], policy: { autonomy: "on" } };
  const records = { session: () => record } as unknown as Records;
  const violations = new Violations();
  const watch = new CrewWatch(world, records, new Map([["p1", files]]), violations, () => true);
  const news = (line: number) =>
    ({ session: "s", line: BigInt(line), turn: 0n, tenures: [], orchestratorAgeMs: 60_000 }) as unknown as CrewNews;
  return {
    keep: (step: number) =>
      files.set(`state-${step}`, new TextEncoder().encode(JSON.stringify({ session: "s", vnode: "v", step }))),
    drop: (step: number) => files.delete(`state-${step}`),
    says: (line: number) => watch.tells({ incarnation: "1", news: news(line) }),
    /** What was said arrives, and the other follows. */
    isHeard: (line: number, answered = line) =>
      watch.told({
        ...{ request: { news: news(line), incarnation: "1" }, response: { news: news(answered) } },
        ...{ caller: "p1", incarnation, server: "p2" },
      } as unknown as Answer),
    found: () => violations.found.map(({ message }) => message),
  };
}

test("a line is judged when it is said: what arrives late was true then", () => {
  const { keep, drop, says, isHeard, found } = alone();
  keep(3);
  says(3);
  keep(6);
  says(6);
  drop(3);
  isHeard(3);
  isHeard(6);
  assert.deepEqual(found(), []);
});

test("a line that nobody holds is found when it is said, also if nobody ever hears it", () => {
  const { keep, drop, says, found } = alone();
  keep(3);
  drop(3);
  says(3);
  assert.deepEqual(found(), [
    "messages below 3 were thrown away, and the state of v there is held by nobody (no disk)",
  ]);
});

test("whoever was told of a line and is alone does not stay below it", () => {
  const { keep, says, isHeard, found } = alone();
  keep(3);
  says(3);
  isHeard(3, 0);
  assert.deepEqual(found(), ["p2 was told of the line 3 and stays at 0"]);
});
