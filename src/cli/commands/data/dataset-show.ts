// `dcnr dataset show`: one dataset and some of its samples.

import { elementCount, type Tensor } from "../../../core/tensor.ts";
import { showSamples } from "../../../data/show.ts";
import type { Command } from "../../command.ts";
import { classesOf } from "../../content/class-names.ts";
import { classesText, contentOf, datasetJson, remoteDataset, splitsOf } from "../../content/datasets.ts";
import { connectionOptions, withClient } from "../../joining/connection.ts";
import { showLineage } from "../../shown/lineage.ts";
import { bytes } from "../../shown/progress.ts";

const valuesShown = 8;
const charactersShown = 300;

export const command: Command = {
  summary: "Show a dataset and some of its samples.",
  positionals: [{ name: "NAME" }],
  options: {
    ...connectionOptions,
    start: { type: "number", value: "N", summary: "first sample", default: 0 },
    count: { type: "number", least: 1, value: "N", summary: "how many samples", default: 5 },
    context: { type: "number", least: 1, value: "N", summary: "tokens of a sample, for token streams", default: 64 },
    manifest: { type: "boolean", summary: "print the manifest" },
    lineage: { type: "boolean", summary: "show where it comes from, over all steps to the sources" },
  },
  examples: [
    "dcnr dataset show mnist",
    "dcnr dataset show books --start 100 --count 2",
    "dcnr dataset show mnist --manifest",
    "dcnr dataset show corpus --lineage",
  ],
  run: (context) =>
    withClient(context, async (client) => {
      const { flags, out } = context;
      const name = context.arguments[0] ?? "";
      const { dataset, manifest: text } = await client.datasets.get(name);
      if (flags.is("lineage")) return void (await showLineage(client, name, out, flags.is("json")));
      if (flags.is("manifest")) return void out.raw(`${text}\n`);
      const { manifest, fetchBlob } = await remoteDataset(client, name);
      const request = { start: flags.number("start"), count: flags.number("count"), context: flags.number("context") };
      const samples = await showSamples(manifest, request, fetchBlob);
      const classes = classesOf(manifest);
      if (flags.is("json")) {
        const plain = samples.map(({ index, fields, text }) => {
          const values = Object.entries(fields).map(([field, tensor]) => [
            field,
            Array.from(tensor.data as Float32Array),
          ]);
          return { index, fields: Object.fromEntries(values), text };
        });
        return void out.json({
          dataset: dataset && datasetJson(dataset),
          ...(classes ? { classes } : {}),
          samples: plain,
        });
      }
      if (dataset) {
        out.line(
          `${dataset.name}: ${dataset.kind}, ${contentOf(dataset)}, ${bytes(dataset.bytes)}, manifest ${dataset.hash}`,
        );
        if (dataset.splits.length > 0) out.line(`splits: ${splitsOf(dataset)}`);
      }
      if (classes) out.line(classesText(classes));
      for (const sample of samples) {
        out.line();
        out.line(out.tone("bold", `sample ${sample.index}`));
        for (const [field, tensor] of Object.entries(sample.fields)) {
          const label = field === "labels" ? classes?.[Number(tensor.data[0])] : undefined;
          out.line(`  ${field} ${describe(tensor)}${label === undefined ? "" : ` (${label})`}`);
        }
        if (sample.text !== "") out.line(`  ${JSON.stringify(sample.text.slice(0, charactersShown))}`);
      }
      return undefined;
    }),
};

function describe({ dtype, shape, data }: Tensor): string {
  const values = Array.from(data as Float32Array)
    .slice(0, valuesShown)
    .map((value) => Number(value.toPrecision(5)));
  const more = elementCount(shape) > valuesShown ? ", ..." : "";
  return `${dtype} [${shape}]: ${values.join(", ")}${more}`;
}
