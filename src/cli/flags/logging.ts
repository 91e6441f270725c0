// Flags about logs, the same for every long-running command.

import { fail } from "../../core/errors.ts";
import type { LogLevel, World } from "../../core/world.ts";
import { realWorld } from "../../system/world.ts";
import type { Flags, OptionSpec } from "../command.ts";

export const logOptions: Readonly<Record<string, OptionSpec>> = {
  log: {
    type: "string",
    value: "FORMAT",
    summary: "log format on standard error: auto, pretty, json or none",
    default: "auto",
  },
  "log-level": { type: "string", value: "LEVEL", summary: "debug, info, warn or error", default: "info" },
};

const formats = ["auto", "pretty", "json", "none"] as const;
const levels = ["debug", "info", "warn", "error"] as const;

export function worldFrom(flags: Flags): World {
  const logFormat = flags.text("log") as (typeof formats)[number];
  const logLevel = flags.text("log-level") as LogLevel;
  if (!formats.includes(logFormat))
    fail("invalid_argument", `--log is one of ${formats.join(", ")}, not "${logFormat}"`);
  if (!levels.includes(logLevel))
    fail("invalid_argument", `--log-level is one of ${levels.join(", ")}, not "${logLevel}"`);
  return realWorld({ logFormat, logLevel });
}
