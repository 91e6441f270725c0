// Jobs as people write them in YAML files: one job, or a list under `jobs`. Words and units are those of the command line;
// what a kind needs stands under the kind's own name.

import type { JobSpecInit } from "../../client/calls/jobs.ts";
import { fail, messageOf } from "../../core/errors.ts";
import { didYouMean } from "../../network/suggest.ts";
import { parseBytes, parseSeconds } from "./quantities.ts";

type Fields = Readonly<Record<string, unknown>>;

const requirementNames = ["gpus", "gpu-memory", "memory", "cores", "region", "provider", "trust", "max-price"];
const jobNames = ["kind", "name", "queue", "priority", "needs", "requirements", "time-limit", "deadline", "key"];

/** `key`: names the jobs of the file for whoever submits it again. `usualKind`: of jobs that do not say theirs. */
export async function readJobs(
  text: string,
  path: string,
  key: string | undefined,
  usualKind?: string,
): Promise<JobSpecInit[]> {
  const { parse } = await import("yaml");
  let parsed: unknown;
  try {
    parsed = parse(text, { maxAliasCount: 100, logLevel: "error" });
  } catch (thrown) {
    fail("invalid_argument", `${path} is no YAML: ${messageOf(thrown)}`);
  }
  const whole = fieldsOf(parsed, path);
  const list = whole["jobs"] === undefined ? [whole] : whole["jobs"];
  if (!Array.isArray(list)) fail("invalid_argument", `${path}: \`jobs\` must be a list`);
  return list.map((one, index) => {
    const fields = fieldsOf(one, `${path}, job ${index + 1}`);
    return jobOf(
      usualKind === undefined ? fields : { kind: usualKind, ...fields },
      path,
      key === undefined ? undefined : list.length === 1 ? key : `${key}/${fields["name"] ?? index}`,
    );
  });
}

function jobOf(fields: Fields, path: string, key: string | undefined): JobSpecInit {
  const kind = text(fields, "kind", path);
  const name = optionalText(fields, "name", path) ?? "";
  const where = name === "" ? path : `${path}, job ${name}`;
  checkNames(fields, [...jobNames, kind], where);
  const limit = fields["time-limit"];
  const deadline = optionalText(fields, "deadline", where);
  const jobKey = optionalText(fields, "key", where) ?? key;
  return {
    kind,
    name,
    queue: optionalText(fields, "queue", where) ?? "",
    priority: optionalText(fields, "priority", where) ?? "",
    needs: needsOf(fields["needs"], where),
    requirements: requirementsOf(fields["requirements"], where),
    timeLimitSeconds: limit === undefined ? 0 : parseSeconds(String(limit), `${where}: time-limit`),
    deadlineWallMs: deadline === undefined ? 0n : BigInt(instant(deadline, where)),
    ...(jobKey === undefined ? {} : { key: jobKey }),
    spec: fields[kind] === undefined ? {} : fieldsOf(fields[kind], `${where}: ${kind}`),
  };
}

function requirementsOf(given: unknown, where: string): NonNullable<JobSpecInit["requirements"]> {
  if (given === undefined) return {};
  const fields = fieldsOf(given, `${where}: requirements`);
  checkNames(fields, requirementNames, `${where}: requirements`);
  const number = (name: string) => {
    const value = Number(fields[name] ?? 0);
    return Number.isFinite(value) && value >= 0
      ? value
      : fail("invalid_argument", `${where}: ${name} is ${String(fields[name])}`);
  };
  const size = (name: string) =>
    fields[name] === undefined ? 0n : BigInt(parseBytes(String(fields[name]), `${where}: ${name}`));
  return {
    gpus: number("gpus"),
    gpuMemoryBytes: size("gpu-memory"),
    memoryBytes: size("memory"),
    cpus: number("cores"),
    region: optionalText(fields, "region", where) ?? "",
    provider: optionalText(fields, "provider", where) ?? "",
    trust: optionalText(fields, "trust", where) ?? "",
    maxPricePerHour: number("max-price"),
  };
}

function needsOf(given: unknown, where: string): string[] {
  if (given === undefined) return [];
  const list = Array.isArray(given) ? given : [given];
  return list.map((one) =>
    typeof one === "string" ? one : fail("invalid_argument", `${where}: \`needs\` lists names or ids of jobs`),
  );
}

function instant(text: string, where: string): number {
  const ms = Date.parse(text);
  return Number.isNaN(ms)
    ? fail("invalid_argument", `${where}: the deadline "${text}" is no time such as 2030-01-31T12:00:00Z`)
    : ms;
}

function checkNames(fields: Fields, known: readonly string[], where: string): void {
  for (const name of Object.keys(fields))
    if (!known.includes(name))
      fail(
        "invalid_argument",
        `${where} has no field "${name}"${didYouMean(name, known) || `: there are ${known.join(", ")}`}`,
      );
}

function fieldsOf(given: unknown, where: string): Fields {
  if (given !== null && typeof given === "object" && !Array.isArray(given)) return given as Fields;
  return fail("invalid_argument", `${where} must be lines of \`name: value\``);
}

function text(fields: Fields, name: string, where: string): string {
  return optionalText(fields, name, where) ?? fail("invalid_argument", `${where} needs \`${name}\``);
}

function optionalText(fields: Fields, name: string, where: string): string | undefined {
  const value = fields[name];
  if (value === undefined || value === null) return undefined;
  if (value instanceof Date) return value.toISOString();
  return typeof value === "string" || typeof value === "number"
    ? String(value)
    : fail("invalid_argument", `${where}: \`${name}\` must be a text`);
}

/** Datasets that jobs name: of what they run, or of what their trials do. */
export function datasetsOf(specs: readonly JobSpecInit[]): ReadonlySet<unknown> {
  return new Set(
    specs.flatMap(({ spec }) => [spec?.["dataset"], (spec?.["train"] as Fields | undefined)?.["dataset"]]),
  );
}
