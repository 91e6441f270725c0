// How a model folder says that texts become vectors, in the files of sentence-transformers beside the weights. Most have none:
// then it is the mean of all tokens.

import { join } from "node:path";
import { fail, hasCode } from "../../core/errors.ts";
import { entryOf } from "../../core/words/table.ts";
import { written } from "../../core/words/written.ts";
import { readText } from "./safetensors.ts";

export type ModelPooling = "mean" | "last";

const fileBytesMax = 1 << 20;

/** Undefined where the folder does not say. */
export async function readPooling(folder: string): Promise<ModelPooling | undefined> {
  let pooling: ModelPooling | undefined;
  for (const { type, path } of await modulesOf(folder)) {
    const kind = kindOf(type);
    if (kind === "Pooling") pooling = await readOne(folder, written(path));
    else if (kind !== "Transformer" && kind !== "Normalize")
      fail(
        "unimplemented",
        `modules.json lists a module ${written(type)}: texts become vectors by Transformer, Pooling and Normalize alone here`,
      );
  }
  return pooling;
}

interface Module {
  readonly type?: unknown;
  readonly path?: unknown;
}

async function modulesOf(folder: string): Promise<readonly Module[]> {
  const modules = await readOptional(join(folder, "modules.json"));
  if (modules === undefined) return [];
  return Array.isArray(modules) ? modules : fail("invalid_argument", "modules.json must be a list of modules");
}

const kindOf = (type: unknown) => written(type).split(".").at(-1);

/** What the modules of a folder say of pooling, as far as they name folders of their own. */
export async function poolingFiles(folder: string): Promise<string[]> {
  const pooling = (await modulesOf(folder)).filter(({ type }) => kindOf(type) === "Pooling");
  return pooling.map(({ path }) => poolingFile(written(path)));
}

function poolingFile(path: string): string {
  if (!/^[A-Za-z0-9_]{1,40}$/.test(path))
    fail("invalid_argument", `modules.json names a folder "${path.slice(0, 80)}"`);
  return `${path}/config.json`;
}

/** Older files have a flag for each way, newer ones its name. */
const ways: Readonly<Record<string, ModelPooling>> = {
  pooling_mode_mean_tokens: "mean",
  pooling_mode_lasttoken: "last",
  mean: "mean",
  lasttoken: "last",
};

async function readOne(folder: string, path: string): Promise<ModelPooling> {
  const file = poolingFile(path);
  const config = (await readOptional(join(folder, path, "config.json"))) as Record<string, unknown> | undefined;
  if (config === undefined) fail("not_found", `modules.json lists ${path}, but there is no ${file}`);
  const chosen = Object.keys(config).filter((name) => name.startsWith("pooling_mode_") && config[name] === true);
  if (typeof config["pooling_mode"] === "string") chosen.push(config["pooling_mode"]);
  const [way, ...more] = chosen;
  const pooling = way === undefined ? undefined : entryOf(ways, way);
  if (pooling === undefined || more.length > 0)
    fail(
      "unimplemented",
      `${file} asks for ${chosen.join(" and ") || "no pooling"}: the mean of all tokens or the last one are known`,
    );
  return pooling;
}

async function readOptional(path: string): Promise<unknown> {
  const text = await readText(path, fileBytesMax).catch((thrown) => {
    if (hasCode(thrown, "not_found")) return undefined;
    throw thrown;
  });
  if (text === undefined) return undefined;
  try {
    return JSON.parse(text);
  } catch {
    return fail("invalid_argument", `${path} is no JSON`);
  }
}
