// One answer, one thread, no network: ours beside llama.cpp on the same GGUF file, in turns, so that a busy machine disturbs both alike.

import { existsSync } from "node:fs";
import { createRequire } from "node:module";
import { join } from "node:path";
import { median, Side } from "../side.ts";
import type { Decoded } from "./decode-side.ts";
import { type GgufFormat, llama100, parametersOf, writeLlama } from "./gguf.ts";

export const formats: readonly GgufFormat[] = ["float32", "8bit", "4bit"];

/** Of each answer. */
const answerTokens = 33;
/** Text that is the same is the same mathematics. */
const comparedTokens = 8;

const side = join(import.meta.dirname, "decode-side.ts");

/** The folder in which node-llama-cpp is installed; undefined where there is none. */
export function llamaFolder(): string | undefined {
  const folder = process.env["DCNR_LLAMA_CPP"] ?? "";
  if (folder === "" || !existsSync(folder)) return undefined;
  try {
    createRequire(join(folder, "package.json")).resolve("node-llama-cpp");
    return folder;
  } catch {
    return undefined;
  }
}

export interface Compared {
  readonly format: GgufFormat;
  readonly own: Decoded;
  readonly llama: Decoded | undefined;
  /** Ours over theirs, by CPU time of turns that followed each other. */
  readonly speed: number | undefined;
  readonly sameTokens: boolean | undefined;
}

export async function compareDecoding(
  folder: string,
  format: GgufFormat,
  rounds: number,
  log: (line: string) => void,
): Promise<Compared> {
  const [whole, packed] = [fileOf(folder, "float32"), fileOf(folder, format)];
  if (!existsSync(whole)) writeLlama(whole, llama100, "float32");
  const peer = llamaFolder();
  if (peer !== undefined && !existsSync(packed)) writeLlama(packed, llama100, format);
  const sides = [
    await Side.start(process.execPath, [side, "--engine", "native", "--weights", format, "--file", whole]),
    ...(peer === undefined
      ? []
      : [await Side.start(process.execPath, [side, "--engine", "llama", "--file", packed], { DCNR_LLAMA_CPP: peer })]),
  ];
  const turns: Decoded[][] = sides.map(() => []);
  try {
    for (let round = 0; round < rounds; round++)
      for (const [i, each] of sides.entries()) {
        const found = (await each.run(answerTokens)) as unknown as Decoded;
        turns[i]?.push(found);
        log(`${format}, ${i === 0 ? "own" : "llama.cpp"}: ${found.cpuMs.toFixed(2)} CPU ms a token`);
      }
  } finally {
    for (const each of sides) await each.stop();
  }
  const [own = [], llama] = turns;
  const ratios = own.map(({ cpuMs }, i) => (llama?.[i]?.cpuMs ?? Number.NaN) / cpuMs);
  const start = ({ tokens }: Decoded) => tokens.slice(0, comparedTokens).join(" ");
  return {
    format,
    own: middle(own),
    llama: llama && middle(llama),
    speed: llama && median(ratios),
    sameTokens: llama && start(own[0] as Decoded) === start(llama[0] as Decoded),
  };
}

export function fileOf(folder: string, format: GgufFormat, size = llama100): string {
  return join(folder, `llama-${size === llama100 ? "" : `${size.layers}x${size.width}-`}${format}.gguf`);
}

function middle(turns: readonly Decoded[]): Decoded {
  const of = (field: "cpuMs" | "wallMs" | "prefillCpuMs" | "residentMb") => median(turns.map((turn) => turn[field]));
  const figures = { cpuMs: of("cpuMs"), wallMs: of("wallMs"), prefillCpuMs: of("prefillCpuMs") };
  return { ...figures, residentMb: of("residentMb"), tokens: turns[0]?.tokens ?? [] };
}

const round = (value: number | undefined, digits = 1) => value?.toFixed(digits) ?? "";

export function decodeTable(compared: readonly Compared[]): string {
  const whole = compared.find(({ format }) => format === "float32")?.own.cpuMs;
  const targets = { float32: "", "8bit": " (>= 2)", "4bit": " (>= 3)" };
  return [
    `A random Llama of ${parametersOf(llama100).toLocaleString("en")} parameters (${llama100.layers} layers, width ${llama100.width}, vocabulary ${llama100.vocabulary.toLocaleString("en")}, tied), one thread, answers of ${answerTokens} tokens after a prompt of 16; medians of turns.`,
    compared.some(({ llama }) => llama === undefined)
      ? "llama.cpp was not there: install node-llama-cpp in a folder of its own and name that in DCNR_LLAMA_CPP."
      : "llama.cpp is node-llama-cpp's prebuilt library for this processor, on the same file.",
    "",
    "| weights | CPU ms a token | tokens/s | llama.cpp CPU ms | tokens/s | our speed over its (>= 0.9) | times our float32 | same first tokens |",
    "|---|---|---|---|---|---|---|---|",
    ...compared.map(({ format, own, llama, speed, sameTokens }) => {
      const times = whole === undefined ? "" : `${round(whole / own.cpuMs, 2)}${targets[format]}`;
      const peer = llama ? `${round(llama.cpuMs)} | ${round(1000 / llama.wallMs)}` : " | ";
      return `| ${format} | ${round(own.cpuMs)} | ${round(1000 / own.wallMs)} | ${peer} | ${round(speed, 2)} | ${times} | ${sameTokens === undefined ? "" : sameTokens ? "yes" : "no"} |`;
    }),
  ].join("\n");
}
