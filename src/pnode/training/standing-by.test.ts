// What a PNode does about sessions that it stands by for: each VNode once, one session after the other, and nothing of those that
// are no longer listed.

import assert from "node:assert/strict";
import { test } from "node:test";
import type { Tasks } from "../../core/tasks.ts";
import { silentLog } from "../../core/world.ts";
import { StandingBy } from "./standing-by.ts";

function scene(fails: ReadonlySet<string> = new Set()) {
  const [warmed, left]: [string[], string[]] = [[], []];
  const running: Promise<unknown>[] = [];
  const standingBy = new StandingBy({
    tasks: { run: (_: string, task: () => Promise<void>) => void running.push(task()) } as unknown as Tasks,
    log: silentLog,
    warm: async (session, vnodes) => {
      warmed.push(`${session}: ${vnodes}`);
      if (fails.has(session)) throw new Error("no room");
    },
    onLeft: (session) => void left.push(`${session} ${standingBy.has(session)}`),
  });
  const settled = async () => {
    await Promise.all(running.splice(0));
  };
  return { standingBy, warmed, left, settled };
}

const of = (session: string, ...vnodes: string[]) => ({ session, vnodes });

test("what is new in the list is warmed once", async () => {
  const { standingBy, warmed, settled } = scene();
  standingBy.told([of("s", "a", "b")]);
  standingBy.told([of("s", "b", "c"), of("t", "a")]);
  standingBy.told([of("s", "a"), of("t", "a")]);
  await settled();
  assert.deepEqual(warmed, ["s: a,b", "s: c", "t: a"]);
});

test("what is no longer listed is let go, also before its turn came", async () => {
  const { standingBy, warmed, left, settled } = scene();
  standingBy.told([of("s", "a"), of("t", "a")]);
  standingBy.told([of("t", "a")]);
  await settled();
  assert.deepEqual(left, ["s false"]);
  assert.deepEqual(warmed, ["t: a"]);
});

test("one that cannot be warmed holds nobody up", async () => {
  const { standingBy, warmed, settled } = scene(new Set(["s"]));
  standingBy.told([of("s", "a"), of("t", "a")]);
  await settled();
  assert.deepEqual(warmed, ["s: a", "t: a"]);
});

test("a list without end is read up to a bound", async () => {
  const { standingBy, warmed, settled } = scene();
  standingBy.told(Array.from({ length: 1_000 }, (_, index) => of(`s${index}`, "a")));
  await settled();
  assert.equal(warmed.length, 8);
});
