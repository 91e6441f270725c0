// A source: a dataset that the network has, or one of its splits.

import { fail } from "../../core/errors.ts";
import { manifestHash } from "../../data/manifest.ts";
import { ruleOf } from "../../data/order.ts";
import type { Operator } from "../operator.ts";
import { allPart } from "../records.ts";
import { fieldsOf, text, whole } from "../settings.ts";
import { recordsOfManifest } from "./manifest-records.ts";

export const dataset: Operator = {
  name: "dataset",
  version: 1,
  reads: "nothing",
  read(given, where) {
    const fields = fieldsOf(typeof given === "string" ? { name: given } : given, ["name", "split", "context"], where);
    return {
      name: text(fields, "name", where),
      split: text(fields, "split", where, "all"),
      ...(fields["context"] === undefined ? {} : { context: whole(fields, "context", where, 2, 65_536) }),
    };
  },
  gives: (_inputs, _settings, facts) => (facts["kind"] === "tokens" ? "tokens" : "rows"),
  async look(settings, outside, where) {
    const { manifest } = await outside.dataset(settings["name"] as string);
    ruleOf(manifest, settings["split"] as string);
    if (manifest.kind === "tokens" && settings["context"] === undefined)
      fail(
        "invalid_argument",
        `${where}: ${settings["name"]} is a token stream: say \`context\`, how many tokens make a record`,
      );
    return { dataset: manifestHash(manifest), kind: manifest.kind };
  },
  async run({ settings, facts, kit, outside, where }) {
    const { manifest, fetchBlob } = await outside.dataset(settings["name"] as string);
    if (manifestHash(manifest) !== facts["dataset"])
      fail(
        "failed_precondition",
        `${where}: the dataset ${settings["name"]} has changed since the pipeline began: start it again`,
      );
    if (manifest.kind === "tokens" && manifest.tokenizer) await kit.blobs.put(await fetchBlob(manifest.tokenizer));
    const split = settings["split"] as string;
    const context = settings["context"] as number | undefined;
    const { shards, ...output } = await recordsOfManifest(
      { manifest, fetchBlob, split, ...(context && { context }) },
      kit,
    );
    return { ...output, parts: [{ name: allPart, shards }] };
  },
};
