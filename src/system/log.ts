// Where log lines end up: JSON lines for machines, aligned and coloured lines for people.

import type { Clock, Log, LogFields, LogLevel } from "../core/world.ts";

export interface LogSink {
  write(line: string): void;
}

export interface LogOptions {
  readonly clock: Clock;
  readonly sink: LogSink;
  /** Lines below it are dropped. */
  readonly level: LogLevel;
}

const rank: Readonly<Record<LogLevel, number>> = { debug: 0, info: 1, warn: 2, error: 3 };

/** One JSON object a line: `time`, `level`, `message`, then the fields. */
export function jsonLog(options: LogOptions): Log {
  return (level, message, fields) => {
    if (rank[level] < rank[options.level]) return;
    const time = new Date(options.clock.wallMs()).toISOString();
    // The fields come first, so that none of them can pass for the time, the level or the message.
    options.sink.write(`${JSON.stringify({ ...fields, time, level, message }, order(fields))}\n`);
  };
}

function order(fields: LogFields = {}): string[] {
  return ["time", "level", "message", ...Object.keys(fields)];
}

const colours: Readonly<Record<LogLevel, string>> = {
  debug: "\u001b[90m",
  info: "\u001b[36m",
  warn: "\u001b[33m",
  error: "\u001b[31m",
};
const grey = "\u001b[90m";
const plain = "\u001b[0m";

/** `21:40:52.123 info  message key=value`, in colour where the sink is a terminal. */
export function prettyLog(options: LogOptions & { readonly colour: boolean }): Log {
  const paint = (code: string, text: string) => (options.colour ? `${code}${text}${plain}` : text);
  return (level, message, fields = {}) => {
    if (rank[level] < rank[options.level]) return;
    const time = new Date(options.clock.wallMs()).toISOString().slice(11, 23);
    const pairs = Object.entries(fields)
      .filter(([, value]) => value !== undefined)
      .map(([key, value]) => ` ${paint(grey, `${key}=`)}${printable(value)}`);
    options.sink.write(
      `${paint(grey, time)} ${paint(colours[level], level.padEnd(5))} ${escapeControls(message)}${pairs.join("")}\n`,
    );
  };
}

function printable(value: string | number | boolean | undefined): string {
  if (typeof value !== "string") return String(value);
  return /^[\w.:/@+-]+$/.test(value) ? value : JSON.stringify(value);
}

/** A remote name in a message must not be able to move the cursor or forge a line. */
function escapeControls(text: string): string {
  // biome-ignore lint/suspicious/noControlCharactersInRegex: control characters are what it removes
  return text.replace(/[\u0000-\u001f\u007f-\u009f]/g, (control) => JSON.stringify(control).slice(1, -1));
}
