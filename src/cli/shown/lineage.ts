// Where a dataset comes from, as a tree from the dataset back to its sources; datasets that it was made of are followed as far as the
// network still has them.

import type { Client } from "../../client/client.ts";
import { hasCode } from "../../core/errors.ts";
import type { Json } from "../../data/json-checks.ts";
import { type Lineage, type LineageStep, parseLineage } from "../../data/lineage.ts";
import { type Output, plain } from "./output.ts";
import { bytes } from "./progress.ts";

/** A dataset that was made of itself would be a bug; a hundred generations are nobody's. */
const generationsMax = 32;

interface Descent {
  readonly dataset: string;
  readonly hash: string;
  readonly steps: readonly LineageStep[];
  /** Of the datasets among its sources, those that the network has as they were. */
  readonly parents: readonly Descent[];
  /** Nobody said how it was made. */
  readonly unknown?: true;
}

export async function showLineage(client: Client, name: string, out: Output, json: boolean): Promise<void> {
  const descent = await descentOf(client, name, undefined, 0);
  if (json || !descent) return void out.json(descent);
  print(descent, "", out);
}

async function descentOf(
  client: Client,
  name: string,
  hash: string | undefined,
  generation: number,
): Promise<Descent | undefined> {
  const found = await client.datasets.get(name).catch((error: unknown) => {
    if (generation > 0 && hasCode(error, "not_found")) return undefined;
    throw error;
  });
  if (!found?.dataset || (hash !== undefined && found.dataset.hash !== hash)) return undefined;
  if (found.lineage === "") return { dataset: name, hash: found.dataset.hash, steps: [], parents: [], unknown: true };
  const lineage: Lineage = parseLineage(found.lineage);
  const parents: Descent[] = [];
  for (const { operation, settings, found: facts } of lineage.steps) {
    if (operation !== "dataset" || generation >= generationsMax) continue;
    const parent = await descentOf(client, String(settings["name"]), String(facts["dataset"]), generation + 1);
    if (parent) parents.push(parent);
  }
  return { dataset: name, hash: found.dataset.hash, steps: lineage.steps, parents };
}

function print({ dataset, hash, steps, parents, unknown }: Descent, indent: string, out: Output): void {
  out.line(
    `${indent}${out.tone("bold", plain(dataset))} ${hash.slice(0, 12)}${unknown ? ": nobody said how it was made" : ""}`,
  );
  const byName = new Map(steps.map((step) => [step.name, step]));
  const last = steps.at(-1);
  if (last) printStep(last, byName, parents, `${indent}  `, new Set(), out);
}

function printStep(
  step: LineageStep,
  steps: ReadonlyMap<string, LineageStep>,
  parents: readonly Descent[],
  indent: string,
  told: Set<string>,
  out: Output,
): void {
  const again = told.has(step.name);
  told.add(step.name);
  const size = `${step.records.toLocaleString("en")} records, ${bytes(step.bytes)}`;
  const what = again ? "as above" : `${detail(step)}; ${size}`;
  out.line(`${indent}${plain(step.name)}: ${plain(step.operation)} ${plain(what)}`);
  if (again) return;
  const parent = step.operation === "dataset" ? parents.find(({ hash }) => hash === step.found["dataset"]) : undefined;
  if (parent) print(parent, `${indent}  `, out);
  for (const input of step.inputs) {
    const from = steps.get(input);
    if (from) printStep(from, steps, parents, `${indent}  `, told, out);
  }
}

const detailCharactersMax = 160;

function detail({ operation, settings, found }: LineageStep): string {
  const files = found["files"];
  if (operation === "files" && Array.isArray(files)) {
    const names = files.map((file: Json) => `${file["path"]} (${bytes(Number(file["bytes"]))})`);
    const more = typeof found["filesInAll"] === "number" ? `, ... ${found["filesInAll"]} in all` : "";
    return names.slice(0, 3).join(", ") + (names.length > 3 && more === "" ? `, ... ${names.length} in all` : more);
  }
  if (operation === "dataset") return `${settings["name"]} ${String(found["dataset"]).slice(0, 12)}`;
  const text = Object.entries(settings)
    .map(([name, value]) => `${name} ${typeof value === "string" ? value : JSON.stringify(value)}`)
    .join(", ");
  return text.length > detailCharactersMax ? `${text.slice(0, detailCharactersMax)}...` : text;
}
