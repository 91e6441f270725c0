// The real world: what the composition root hands to everything that needs time, chance or a log.

import type { LogLevel, World } from "../core/world.ts";
import { realChance } from "./chance.ts";
import { realClock } from "./clock.ts";
import { jsonLog, type LogSink, prettyLog } from "./log.ts";
import { realTimers } from "./timers.ts";

export interface WorldOptions {
  /** `auto`: for people where standard error is a terminal, else JSON lines. */
  readonly logFormat?: "auto" | "json" | "pretty" | "none";
  readonly logLevel?: LogLevel;
  /** Standard error by default: standard output belongs to results. */
  readonly sink?: LogSink;
}

export function realWorld(options: WorldOptions = {}): World {
  return { clock: realClock, timers: realTimers, chance: realChance, log: logOf(options) };
}

function logOf({ logFormat = "auto", logLevel = "info", sink = process.stderr }: WorldOptions): World["log"] {
  const terminal = process.stderr.isTTY === true;
  const format = logFormat === "auto" ? (terminal ? "pretty" : "json") : logFormat;
  const base = { clock: realClock, sink, level: logLevel };
  if (format === "none") return () => {};
  if (format === "json") return jsonLog(base);
  return prettyLog({ ...base, colour: terminal && !process.env["NO_COLOR"] });
}
