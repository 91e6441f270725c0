// Loaded into each process that runs a file of tests: when it ends, it notes the CPU time that it took with all processes that it
// started and waited for. Nothing is noted where the system does not tell (/proc).

import { appendFileSync, readFileSync } from "node:fs";
import { isMainThread } from "node:worker_threads";

const [, file = ""] = process.argv;
const notes = process.env["DCNR_TEST_COSTS"];

if (isMainThread && notes && file.endsWith(".test.ts"))
  process.on("exit", () => {
    try {
      const text = readFileSync("/proc/self/stat", "utf8");
      const fields = text.slice(text.lastIndexOf(")") + 2).split(" ");
      // Its own and that of its children, in hundredths of a second.
      const cpu = fields.slice(11, 15).reduce((sum, each) => sum + Number(each), 0) / 100;
      appendFileSync(notes, `${JSON.stringify({ file, cpu })}\n`);
    } catch {
      // A test's outcome does not depend on what it costs.
    }
  });
