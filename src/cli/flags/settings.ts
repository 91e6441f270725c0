// Settings behind the flags: DCNR_* in the environment, then a YAML file. Flags win over both.

import { existsSync, readFileSync } from "node:fs";
import { homedir } from "node:os";
import { join } from "node:path";
import { fail, messageOf } from "../../core/errors.ts";

export interface Settings {
  /** What stands in for a flag that was not given. */
  fallback(flag: string): string | number | boolean | undefined;
  /** Everything that is set outside flags, and where. */
  listed(): { name: string; value: string; source: string }[];
  readonly file: string;
}

export function environmentName(flag: string): string {
  return `DCNR_${flag.toUpperCase().replaceAll("-", "_")}`;
}

export function settingsPath(environment: NodeJS.ProcessEnv): string {
  return (
    environment["DCNR_CONFIG"] ??
    join(environment["XDG_CONFIG_HOME"] ?? join(homedir(), ".config"), "dcnr", "config.yaml")
  );
}

/** The file is read only when it exists and something asks for a setting, so that --help stays quick. */
export async function openSettings(environment: NodeJS.ProcessEnv): Promise<Settings> {
  const file = settingsPath(environment);
  const values = existsSync(file) ? await readSettings(file) : {};
  return {
    file,
    fallback: (flag) => environment[environmentName(flag)] ?? values[flag],
    listed: () => [
      ...Object.entries(environment)
        .filter(([name, value]) => name.startsWith("DCNR_") && value !== undefined)
        .map(([name, value]) => ({
          name: name.slice(5).toLowerCase().replaceAll("_", "-"),
          value: hideSecret(name, value ?? ""),
          source: `environment ${name}`,
        })),
      ...Object.entries(values)
        .filter(([name]) => environment[environmentName(name)] === undefined)
        .map(([name, value]) => ({ name, value: hideSecret(name, String(value)), source: file })),
    ],
  };
}

async function readSettings(file: string): Promise<Record<string, string | number | boolean>> {
  try {
    const { parse } = await import("yaml");
    const values: unknown = parse(readFileSync(file, "utf8"), { maxAliasCount: 0, logLevel: "error" });
    if (values === null) return {};
    if (typeof values !== "object" || Array.isArray(values))
      throw new Error("it must be a list of `flag: value` lines");
    return values as Record<string, string | number | boolean>;
  } catch (error) {
    return fail(
      "invalid_argument",
      `cannot read the settings in ${file}: ${messageOf(error)}. Mend or remove the file`,
    );
  }
}

function hideSecret(name: string, value: string): string {
  return /key|secret|token|password/i.test(name) ? "(hidden)" : value;
}
