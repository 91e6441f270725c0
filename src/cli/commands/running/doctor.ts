// `dcnr doctor`: examines this machine, and lets the PNode that lends it say so: a network that has quarantined it takes it back
// after a while.

import { totalmem } from "node:os";
import { fail } from "../../../core/errors.ts";
import { sleep } from "../../../core/world.ts";
import { exactClass } from "../../../engine/exact/engine.ts";
import { portableClass } from "../../../engine/portable/bits.ts";
import { testMemory } from "../../../system/machine/memory-test.ts";
import { realWorld } from "../../../system/world.ts";
import type { Command } from "../../command.ts";
import { parseBytes } from "../../flags/quantities.ts";
import { examineBoundary } from "../../machine/apart/boundary.ts";
import { filesOfNode, filesOfPNode } from "../../machine/apart/confinement.ts";
import { cannedTrouble } from "../../machine/canned-interval.ts";
import { dataDirectory, directoryOption } from "../../machine/directories.ts";
import { Examinations, examine, roundsDefault } from "../../machine/examination.ts";
import { measureMachine } from "../../machine/measure-machine.ts";
import { bytes } from "../../shown/progress.ts";

/** Takes a few seconds; whoever suspects memory gives more. */
const memoryDefault = "512MiB";
/** More would push out what the machine's other programs need. */
const memoryShareMax = 0.9;
const roundsMax = 10_000;

export const command: Command = {
  summary: "Examine this machine: its memory, and whether the numbers come out that come out everywhere, each time.",
  details:
    "A machine whose results were found wrong is quarantined. If nothing is found here, its PNode says so the next time it joins, and begins anew as a newcomer an hour " +
    "after it was quarantined; until it is known again everything it computes is checked. A machine that was banned does not come back by this.",
  options: {
    memory: { type: "string", value: "SIZE", summary: "how much memory to test", default: memoryDefault },
    rounds: {
      type: "string",
      value: "N",
      summary: "how often the same numbers are computed",
      default: String(roundsDefault),
    },
    dir: directoryOption,
  },
  examples: ["dcnr doctor", "dcnr doctor --memory 8GiB --rounds 100"],
  run: async ({ flags, out, signal }) => {
    const world = realWorld({ logFormat: "none" });
    const memory = testable(parseBytes(flags.text("memory"), "--memory"), totalmem() * memoryShareMax);
    const rounds = whole(flags.text("rounds"), "--rounds", roundsMax);
    const folder = dataDirectory(flags.optionalText("dir"), process.env, "pnode");
    const examined = await examine({
      rounds,
      measure: measureMachine,
      everywhere: { portable: portableClass, exact: exactClass },
      repeatKnown: repeatCanned,
      testMemory: (settle) => testMemory(memory, () => sleep(world.timers, 0).then(settle)),
      signal,
      say: (sentence) => out.note(sentence),
    });
    await new Examinations(folder).note(examined, world.clock.wallMs());
    const { before: _, ...boundary } = examineBoundary([
      ...filesOfPNode(folder),
      ...filesOfNode(process.argv[1] ?? process.execPath),
    ]);
    if (!flags.is("json")) out.note(boundary.text);
    if (flags.is("json")) out.json({ ...examined, boundary });
    else if (examined.troubles.length === 0) {
      out.line(`Nothing was found: ${bytes(memory)} of memory, and ${rounds} times the same numbers.`);
      out.note("its PNode says so the next time it joins: dcnr join");
    } else for (const trouble of examined.troubles) out.line(out.tone("warn", trouble));
    return examined.troubles.length === 0 ? 0 : 1;
  },
};

/** By the engine whose bits are the same everywhere. */
async function repeatCanned(): Promise<string | undefined> {
  const { openExecutor } = await import("../../../engine/pool/threads.ts");
  const executor = await openExecutor({ kind: "portable", workers: 1 });
  try {
    return await cannedTrouble(executor);
  } finally {
    await executor.close();
  }
}

function testable(size: number, most: number): number {
  if (size > most) fail("invalid_argument", `--memory is more than can be tested: at most ${bytes(most)} here`);
  return size;
}

function whole(text: string, flag: string, most: number): number {
  const value = Number(text);
  if (!Number.isInteger(value) || value < 1 || value > most)
    fail("invalid_argument", `${flag} ${text.slice(0, 40)}: a whole number from 1 to ${most}`);
  return value;
}
