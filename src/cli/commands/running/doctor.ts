// `dcnr doctor`: examines this machine, and lets the PNode that lends it say so: a network that has quarantined it takes it back
// after a while.

import { totalmem } from "node:os";
import { fail } from "../../../core/errors.ts";
import { sleep } from "../../../core/world.ts";
import { testMemory } from "../../../system/machine/memory-test.ts";
import { realWorld } from "../../../system/world.ts";
import type { Command } from "../../command.ts";
import { dataDirectory, directoryOption } from "../../machine/directories.ts";
import { Examinations, examine, roundsDefault } from "../../machine/examination.ts";
import { measureMachine } from "../../machine/measure-machine.ts";

const mebibyte = 1 << 20;
/** Takes a few seconds; whoever suspects memory gives more. */
const memoryMibDefault = 512;
const roundsMax = 10_000;

export const command: Command = {
  summary: "Examine this machine: its memory, and whether the same numbers come out each time.",
  details:
    "A machine whose results were found wrong is quarantined. If nothing is found here, its PNode says so the next time it joins, and begins anew as a newcomer an hour " +
    "after it was quarantined; until it is known again everything it computes is checked. A machine that was banned does not come back by this.",
  options: {
    memory: { type: "string", value: "MIB", summary: "mebibytes of memory to test", default: String(memoryMibDefault) },
    rounds: {
      type: "string",
      value: "N",
      summary: "how often the same numbers are computed",
      default: String(roundsDefault),
    },
    dir: directoryOption,
  },
  examples: ["dcnr doctor", "dcnr doctor --memory 8192 --rounds 100"],
  run: async ({ flags, out }) => {
    const world = realWorld({ logFormat: "none" });
    const memoryMib = whole(flags.text("memory"), "--memory", Math.floor((totalmem() / mebibyte) * 0.9));
    const rounds = whole(flags.text("rounds"), "--rounds", roundsMax);
    const folder = dataDirectory(flags.optionalText("dir"), process.env, "pnode");
    const examined = await examine({
      rounds,
      measure: measureMachine,
      testMemory: () => testMemory(memoryMib * mebibyte, () => sleep(world.timers, 0)),
      say: (sentence) => out.note(sentence),
    });
    await new Examinations(folder).note(examined, world.clock.wallMs());
    if (flags.is("json")) out.json(examined);
    else if (examined.troubles.length === 0) {
      out.line(`Nothing was found: ${memoryMib} MiB of memory, and ${rounds} times the same numbers.`);
      out.note("its PNode says so the next time it joins: dcnr join");
    } else for (const trouble of examined.troubles) out.line(out.tone("warn", trouble));
    return examined.troubles.length === 0 ? 0 : 1;
  },
};

function whole(text: string, flag: string, most: number): number {
  const value = Number(text);
  if (!Number.isInteger(value) || value < 1 || value > most)
    fail("invalid_argument", `${flag} ${text.slice(0, 40)}: a whole number from 1 to ${most}`);
  return value;
}
