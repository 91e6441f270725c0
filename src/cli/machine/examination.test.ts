import { strict as assert } from "node:assert";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, it } from "node:test";
import { portableClass } from "../../engine/portable/bits.ts";
import { Examinations, examine } from "./examination.ts";

const sound = { bytes: 8, errors: 0 };

/** The class that an engine shows, round by round. */
const examined = (
  classes: readonly string[],
  memory = sound,
  signal = new AbortController().signal,
  engine = "native",
) => {
  let round = 0;
  return examine({
    rounds: classes.length,
    measure: async () => ({ classes: [{ engine, class: classes[round++] as string }] }),
    everywhere: { portable: portableClass },
    repeatKnown: async () => undefined,
    testMemory: async () => memory,
    signal,
    say: () => {},
  });
};

describe("an examination", () => {
  it("finds nothing where memory is sound and the same numbers come out alike", async () => {
    assert.deepEqual((await examined(["a", "a", "a"])).troubles, []);
  });

  it("finds a processor that comes to something else once in a while, and memory that errs", async () => {
    const [numbers] = (await examined(["a", "a", "b"])).troubles;
    assert.match(numbers ?? "", /native engine came to 2 different results/);
    const [memory] = (await examined(["a"], { bytes: 8, errors: 1, first: "word 3" } as typeof sound)).troubles;
    assert.match(memory ?? "", /word 3/);
  });

  it("finds a processor that is wrong alike each time, by what comes out everywhere else", async () => {
    const of = async (name: string) => (await examined([name, name], sound, undefined, "portable")).troubles;
    assert.deepEqual(await of(portableClass), []);
    assert.match((await of("portable-other-1"))[0] ?? "", /other numbers than everywhere else, each time/);
  });

  it("ends when it is asked to, in memory and between rounds, and says that it did not come to its end", async () => {
    await assert.rejects(examined(["a", "a"], sound, AbortSignal.abort()), /not examined to the end/);
    const stopped = AbortSignal.abort();
    const testMemory = async (settle: () => void) => {
      settle();
      return sound;
    };
    const measure = async () => ({ classes: [] });
    const repeatKnown = async () => undefined;
    const examining = examine({
      rounds: 0,
      measure,
      everywhere: {},
      repeatKnown,
      testMemory,
      signal: stopped,
      say: () => {},
    });
    await assert.rejects(examining, /stopped/);
  });

  it("is remembered only if it found nothing", async (context) => {
    const folder = await mkdtemp(join(tmpdir(), "dcnr-examined-"));
    context.after(() => rm(folder, { recursive: true }));
    const kept = () => new Examinations(folder);
    assert.equal(await kept().passedMsAgo(5_000), undefined);
    await kept().note(await examined(["a", "a"]), 1_000);
    assert.equal(await kept().passedMsAgo(5_000), 4_000);
    await kept().note(await examined(["a", "b"]), 2_000);
    assert.equal(await kept().passedMsAgo(5_000), undefined);
  });
});
