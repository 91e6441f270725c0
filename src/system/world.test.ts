import { deepStrictEqual, match, strictEqual } from "node:assert/strict";
import { test } from "node:test";
import type { Clock } from "../core/world.ts";
import { realChance } from "./chance.ts";
import { realClock } from "./clock.ts";
import { jsonLog, prettyLog } from "./log.ts";
import { realWorld } from "./world.ts";

const clock: Clock = { wallMs: () => Date.UTC(2026, 0, 2, 3, 4, 5, 678), monotonicMs: () => 0 };

function collected(): { sink: { write(line: string): void }; lines: string[] } {
  const lines: string[] = [];
  return { sink: { write: (line) => void lines.push(line) }, lines };
}

test("JSON lines carry time, level, message and fields, and drop what is below the level", () => {
  const { sink, lines } = collected();
  const log = jsonLog({ clock, sink, level: "info" });
  log("debug", "unseen");
  log("warn", "slow", { vnode: "block_3", step: 7, message: "forged" });
  strictEqual(lines.length, 1);
  deepStrictEqual(JSON.parse(lines[0] as string), {
    time: "2026-01-02T03:04:05.678Z",
    level: "warn",
    message: "slow",
    vnode: "block_3",
    step: 7,
  });
});

test("pretty lines read as text, quote what has spaces, and let no name forge a line", () => {
  const { sink, lines } = collected();
  const log = prettyLog({ clock, sink, level: "debug", colour: false });
  log("info", "joined\nerror forged", { pnode: "maple", reason: "two words", gone: undefined });
  strictEqual(lines[0], '03:04:05.678 info  joined\\nerror forged pnode=maple reason="two words"\n');
  prettyLog({ clock, sink, level: "debug", colour: true })("error", "lost");
  strictEqual(lines[1]?.includes("\u001b[31m"), true);
});

test("the real world has a clock that goes on, chance that varies and timers that can be cancelled", () => {
  const before = realClock.monotonicMs();
  strictEqual(realClock.monotonicMs() >= before, true);
  strictEqual(realChance.bytes(16).length, 16);
  strictEqual(realChance.uniform() < 1, true);
  match(Buffer.from(realChance.bytes(8)).toString("hex"), /^[0-9a-f]{16}$/);
  const world = realWorld({ logFormat: "none" });
  world.timers.after(1_000_000, () => {})();
});

test("a timer calls back once", async () => {
  const world = realWorld({ logFormat: "none" });
  strictEqual(await new Promise((resolve) => world.timers.after(0, () => resolve("called"))), "called");
});
