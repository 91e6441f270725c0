import { strict as assert } from "node:assert";
import { describe, it } from "node:test";
import type { SessionPolicy } from "../../src/network/settings/session.ts";
import type { StandingRecord } from "../../src/orchestrator/records/checking.ts";
import type { SessionRecord } from "../../src/orchestrator/records/sessions.ts";
import { expectationsOf } from "../baselines.ts";
import { calmRun, fleetOf } from "../draw.ts";
import { NetworkRun } from "../network-run.ts";
import { runSeed } from "../run.ts";
import { scenarios } from "../scenarios.ts";
import { type Behaviour, behaviours } from "./byzantine.ts";

const chain = scenarios.find(({ name }) => name === "chain") as (typeof scenarios)[number];

/** Eight machines, of which one is not as it should be; it has a VNode, or, at `p6`, repeats what others did. */
async function world(
  behaviour: Behaviour | undefined,
  host: string,
  assurance: "sampled" | "checked" = "sampled",
  more: Partial<Pick<SessionPolicy, "cap" | "replicas">> = {},
  alike: readonly string[] = [],
) {
  const calm = calmRun(chain, fleetOf(8, 1), { checkpointEvery: 2, replicas: 1, assurance, ...more });
  const odd = new Map(behaviour ? [host, ...alike].map((name) => [name, behaviour]) : []);
  const settings = { ...calm, vnodesPerPNode: 2, behaviours: odd };
  const run = new NetworkRun(1, settings, await expectationsOf(settings), {});
  const { violations } = await run.finish();
  assert.deepEqual(
    violations.map(({ kind, message }) => `${kind}: ${message}`),
    [],
  );
  const [session] = run.records.under<SessionRecord>("session/");
  const standings = run.records.under<StandingRecord>("standing/");
  const found = standings.find(({ pnode }) => (pnode as string) === host)?.faults ?? [];
  const blamed = standings.filter(({ pnode, faults }) => faults.length > 0 && !odd.has(pnode));
  assert.deepEqual(blamed, [], "nobody who is honest");
  return { session, faults: found.map(({ kind }) => kind), stories: found.map(({ story }) => story) };
}

describe("a session that is checked", () => {
  it("comes to the bits of one that is not, and says that strangers have recomputed it", async () => {
    const { session } = await world(undefined, "");
    assert.equal(session?.status, "done");
    assert.equal(session?.final, session?.identity.steps);
    assert.equal(session?.certificate?.nobody, 0);
  });

  for (const behaviour of behaviours)
    it(`is final with the honest run's root although a machine ${behaviour}`, async () => {
      const auditing = behaviour === "slanders" || behaviour === "idles";
      const { session, faults } = await world(behaviour, auditing ? "p6" : "p2");
      assert.equal(session?.final, session?.identity.steps);
      const expected: Partial<Record<Behaviour, string>> = {
        flips: "class",
        zeros: "class",
        equivocates: "equivocation",
        otherClass: "class",
        idles: "hardware",
        withholds: "withholding",
      };
      const kind = expected[behaviour];
      if (kind !== undefined) assert.equal(faults[0], kind);
    });

  it("goes on without a machine that withholds what others need, or says that it has just lost it", async () => {
    assert.deepEqual((await world("withholds", "p2", "checked")).faults.slice(0, 1), ["withholding"]);
    assert.deepEqual((await world("feigns", "p2", "checked")).faults, [], "it may be true");
  });

  it("records nothing, where moves are capped, that goes further than an optimizer can, and everything that is honest", async () => {
    const { faults, stories } = await world("leaps", "p1", "sampled", { cap: "on" });
    assert.equal(faults[0], "hardware");
    assert.match(stories[0] ?? "", /none that its optimizer could come to: .* a weight moved by/);
    assert.deepEqual((await world(undefined, "p2", "sampled", { cap: "on" })).faults, []);
  });

  it("believes no single owner of a VNode that has several: the line waits for all, and a third machine decides", async () => {
    const { session, faults } = await world("flips", "p2", "sampled", { replicas: 2 });
    assert.equal(session?.final, session?.identity.steps);
    assert.equal(faults[0], "class");
    assert.deepEqual((await world(undefined, "", "sampled", { replicas: 3 })).faults, []);
  });

  it("names an owner that sends others something else than it states, and not who computed from that", async () => {
    const { session, faults } = await world("equivocates", "p1", "sampled", { replicas: 2 });
    assert.equal(session?.final, session?.identity.steps);
    assert.deepEqual(faults, ["equivocation"]);
  });

  it("sends nobody away because three strangers say that nobody can repeat its work: they answer for it", async () => {
    const { session, faults } = await world("disclaims", "p5", "checked", {}, ["p6", "p7"]);
    assert.equal(session?.final, session?.identity.steps);
    assert.equal(faults[0], "hardware");
  });

  it("calls a machine a liar that insists on weights far from everybody else's", async () => {
    const { faults } = await world("zeros", "p1", "checked");
    assert.equal(faults[0], "lie");
  });
});

describe("worlds in which one owner brings many machines", () => {
  for (const [seed, what] of [
    [210185, "a stranger has room and more newcomers are needed than usually get something: they get one unit"],
    [210204, "nobody has room for checks beside its own work: they get one unit"],
    [1044, "copies of one VNode take a stranger each, so that two who have room for four have room for three"],
    [1940, "further copies do not get the room that is kept for checks, and then strangers have none for them"],
    [221052, "strangers have no room beside checks, and few are left to check once the others are found out"],
  ] as const)
    it(`seed ${seed} holds, where ${what}`, async () => {
      const { violations } = await runSeed(seed, { byzantine: true });
      assert.deepEqual(
        violations.map(({ kind, message }) => `${kind}: ${message}`),
        [],
      );
    });
});
