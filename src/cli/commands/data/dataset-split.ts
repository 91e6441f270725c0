// `dcnr dataset split`: a dataset with training and validation parts, over the same shards.

import { fail } from "../../../core/errors.ts";
import { lineageOf } from "../../../data/lineage.ts";
import { datasetBytes, manifestHash } from "../../../data/manifest.ts";
import type { FetchBlob } from "../../../data/shard-cache.ts";
import { splitDataset } from "../../../data/splits.ts";
import type { Command, CommandContext } from "../../command.ts";
import { remoteSink } from "../../content/builtin.ts";
import { checkNewName, register, remoteDataset } from "../../content/datasets.ts";
import { stopIfInterrupted } from "../../interruption.ts";
import { connectionOptions, withClient } from "../../joining/connection.ts";
import { ByteProgress } from "../../shown/progress.ts";

export const command: Command = {
  summary: "Split a dataset into training and validation parts; the result is a dataset of its own.",
  positionals: [{ name: "NAME" }, { name: "NEW-NAME" }],
  options: {
    ...connectionOptions,
    by: {
      type: "string",
      value: "RULE",
      summary: "tail (the last ones), ratio (a seeded draw) or hash (by content)",
      default: "tail",
    },
    share: { type: "number", most: 1, fraction: true, value: "X", summary: "share that validates", default: 0.1 },
    seed: { type: "number", value: "N", summary: "of the draw", default: 0 },
    train: { type: "string", value: "SPLIT", summary: "name of the training part", default: "train" },
    validation: { type: "string", value: "SPLIT", summary: "name of the validation part", default: "validation" },
  },
  examples: [
    "dcnr dataset split iris iris-split --by ratio --share 0.2",
    "dcnr dataset split pages pages-split --by hash",
  ],
  run: (context) =>
    withClient(context, async (client) => {
      const { flags, out } = context;
      const [name = "", newName = ""] = context.arguments;
      await checkNewName(client, newName, out);
      const by = flags.text("by");
      if (by !== "tail" && by !== "ratio" && by !== "hash")
        fail("invalid_argument", `--by is tail, ratio or hash, not ${by}`);
      for (const flag of ["train", "validation"])
        if (/^[\d.]+%?$/.test(flags.text(flag)))
          fail(
            "invalid_argument",
            `--${flag} is the name of a part, not its size ${flags.text(flag)}: --share says how much validates`,
          );
      const { manifest, fetchBlob } = await remoteDataset(client, name);
      const request = {
        by,
        share: flags.number("share"),
        seed: flags.number("seed"),
        trainName: flags.text("train"),
        validationName: flags.text("validation"),
      } as const;
      const read = counted(fetchBlob, context, newName, datasetBytes(manifest));
      const split = await splitDataset(manifest, request, { fetchBlob: read, blobs: remoteSink(client) });
      const lineage = lineageOf("split", request, split, { name, hash: manifestHash(manifest), manifest });
      await register(client, newName, split, out, flags.is("json"), lineage);
      return undefined;
    }),
};

/** Splitting by content reads the whole dataset: that takes a while and is shown. */
function counted(fetchBlob: FetchBlob, { out, signal }: CommandContext, title: string, total: number): FetchBlob {
  const progress = new ByteProgress(out, title);
  let done = 0;
  return async (hash) => {
    stopIfInterrupted(signal);
    const content = await fetchBlob(hash);
    done += content.byteLength;
    progress.update(done, total, "read");
    return content;
  };
}
