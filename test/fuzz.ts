// `npm run fuzz -- --messages 1000000 --seed 1 --only GGUF`: the long form of test/fuzz/fuzz.test.ts. Prints what breaks.

import { parseArgs } from "node:util";
import { fuzz } from "./fuzz/run.ts";

const { values } = parseArgs({
  options: {
    messages: { type: "string", default: "1000000" },
    seed: { type: "string", default: "1" },
    only: { type: "string", default: "" },
  },
});
const startRss = process.memoryUsage.rss();
const told = new Set<string>();
const tally = await fuzz({
  seed: Number(values.seed),
  messages: Number(values.messages),
  only: values.only,
  onProgress: ({ inputs, accepted, refused, slowestMs, slowest, findings }) => {
    const rss = Math.round(process.memoryUsage.rss() / (1 << 20));
    console.log(
      `${inputs} inputs: ${accepted} accepted, ${refused} refused, ${findings.length} broken; slowest ${slowestMs.toFixed(1)} ms (${slowest}); ${rss} MB`,
    );
    for (const { target, seed, index, message } of findings) {
      const kind = `${target}: ${message.replaceAll(/\d+/g, "N").slice(0, 100)}`;
      if (told.has(kind)) continue;
      told.add(kind);
      console.log(`  ${target} (${seed}/${index}): ${message}`);
    }
  },
});
const refusedAlone = [...tally.targets].flatMap(([target, isPast]) => (isPast ? [] : target));
if (refusedAlone.length > 0) console.log(`nothing was accepted by ${refusedAlone.sort().join(", ")}`);
console.log(`memory grew by ${Math.round((process.memoryUsage.rss() - startRss) / (1 << 20))} MB`);
process.exit(tally.findings.length > 0 ? 1 : 0);
