// `dcnr model pull`: fetches a model's files from a hub into a folder, ready to be imported.

import { basename } from "node:path";
import { fail, hasCode, messageOf } from "../../../core/errors.ts";
import { download } from "../../../data/imports/download.ts";
import { pullModel } from "../../../models/files/pull.ts";
import { httpsGet } from "../../../system/wires/https-get.ts";
import type { Command } from "../../command.ts";
import { bytes, Progress } from "../../shown/progress.ts";

/** Larger files than any shard of a published model. */
const fileBytesMax = 128 * 2 ** 30;

export const command: Command = {
  summary: "Fetch a model's files from a hub (huggingface.co) into a folder.",
  details:
    "Only what import reads is fetched: config, safetensors, tokenizer, chat template. Files that are already whole are not fetched again.",
  positionals: [{ name: "OWNER/NAME" }],
  options: {
    dir: { type: "string", value: "DIR", summary: "where to put them (default: a folder of the model's name)" },
    hub: { type: "string", value: "URL", summary: "the hub", default: "https://huggingface.co" },
    revision: { type: "string", value: "REVISION", summary: "a branch, tag or commit", default: "main" },
  },
  examples: ["dcnr model pull Qwen/Qwen2.5-0.5B", "dcnr model pull openai-community/gpt2 --dir ./gpt2"],
  run: async (context) => {
    const { flags, out } = context;
    const name = context.arguments[0] ?? "";
    const folder = flags.optionalText("dir") ?? (basename(name) || "model");
    const hub = flags.text("hub").replace(/\/+$/, "");
    const progress = new Progress(out, name, "bytes");
    const files = await pullModel(name, folder, {
      hub,
      revision: flags.text("revision"),
      fetch: (url) => download(url, 0, "", { get: httpsGet, bytesMax: fileBytesMax }),
      onProgress: ({ file, bytes: done, of }) => progress.update(done, of ?? done, `${file}, ${bytes(done)}`),
    }).catch((error) => {
      if (!hasCode(error, "unavailable")) throw error;
      return fail(
        "unavailable",
        `${messageOf(error)}; without a way to the hub, bring the model's folder here by other means and give it to dcnr model import`,
        error,
      );
    });
    if (flags.is("json")) return void out.json({ name, folder, files });
    out.line(`fetched ${name} into ${folder}: ${files.length} files`);
    out.advice(`Import it: dcnr model import ${folder}`);
    return undefined;
  },
};
