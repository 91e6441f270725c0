// `npm run mutants`: looks for the world in which each mutant shows itself first, and keeps those whose world has changed.

import { availableParallelism } from "node:os";
import { hunt, readShown, type ShownSeeds, writeShown } from "../simulation/mutants/shown.ts";
import { mutants } from "../simulation/mutants.ts";
import { SeedPool } from "../simulation/pool.ts";

const before = readShown();
const pools = Array.from({ length: availableParallelism() }, () => new SeedPool(1));
const waiting = Object.keys(mutants);
const found: Record<string, number> = {};

await Promise.all(
  pools.map(async (pool) => {
    for (let name = waiting.shift(); name !== undefined; name = waiting.shift()) {
      const { failures, seeds } = await hunt(pool, name, before);
      const [failure] = failures;
      if (failure) found[name] = failure.seed;
      console.log(`${name}: ${failure ? `seed ${failure.seed}` : "NOT NOTICED"} after ${seeds}`);
    }
    await pool.close();
  }),
);
writeShown(found satisfies ShownSeeds);
process.exitCode = Object.keys(found).length === Object.keys(mutants).length ? 0 : 1;
