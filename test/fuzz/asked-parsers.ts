// What people and programs ask in words, with good samples of each: bodies of the OpenAI and Ollama front ends, schemas and calls of
// tools, pipelines, studies, chat formats, descriptions of models, tables.

import { globSync, readFileSync } from "node:fs";
import { parse as parseYaml } from "yaml";
import { parsePipelineFile } from "../../src/cli/content/pipelines.ts";
import { DcnrError } from "../../src/core/errors.ts";
import { importDataset } from "../../src/data/imports/import.ts";
import type { ImportRequest } from "../../src/data/imports/import-run.ts";
import { lineageText, parseLineage } from "../../src/data/lineage.ts";
import { peftConfig, readPeftConfig } from "../../src/models/adapters/peft-config.ts";
import { parseChatFormat } from "../../src/models/chats/chat.ts";
import { CallReader, forcedCall, type ToolFormat } from "../../src/models/chats/tools.ts";
import { readDecoder } from "../../src/models/families/read.ts";
import { Automaton, type State } from "../../src/models/grammar/automaton.ts";
import { distancesOf } from "../../src/models/grammar/grammar.ts";
import { compileSchema } from "../../src/models/grammar/schema.ts";
import { parseOrigin } from "../../src/orchestrator/serving/http/origins.ts";
import { parseStudySpec } from "../../src/orchestrator/studies/study-spec.ts";
import { readPipeline } from "../../src/pipeline/definition.ts";
import { bodyParser } from "./front-ends.ts";
import { fileParser, type Parser } from "./parsers.ts";

const text = (bytes: Uint8Array): string => Buffer.from(bytes).toString("utf8");
const bytes = (...texts: readonly string[]): Uint8Array[] => texts.map((one) => Buffer.from(one));
const json = (...values: readonly unknown[]): Uint8Array[] => bytes(...values.map((one) => JSON.stringify(one)));

/** What is read in a thread of its own may hold that one; its deadline is five times as long. */
const workMsMax = 1_000;

const schema = {
  type: "object",
  properties: {
    city: { type: "string", minLength: 1, maxLength: 20 },
    days: { type: "array", items: { $ref: "#/$defs/day" }, minItems: 1, maxItems: 3 },
    when: { anyOf: [{ const: "now" }, { enum: ["later", 7, null] }, { type: "integer", minimum: 0, maximum: 99 }] },
  },
  required: ["city", "days"],
  additionalProperties: false,
  $defs: { day: { type: ["integer", "null"], minimum: 1, exclusiveMaximum: 32 } },
};
const tool = { type: "function", function: { name: "weather", description: "of a place", parameters: schema } };
const chat = {
  ...{ model: "echo", temperature: 0.5, top_p: 0.9, max_tokens: 8, seed: 7, stop: ["x", "yy"], n: 2, logprobs: true },
  ...{ top_logprobs: 2, presence_penalty: 0.1, frequency_penalty: -0.1, logit_bias: { 5: -1 }, user: "me" },
  messages: [
    { role: "system", content: "be brief" },
    { role: "user", content: [{ type: "text", text: "one two" }] },
    { role: "assistant", tool_calls: [{ id: "c1", type: "function", function: { name: "weather", arguments: "{}" } }] },
    { role: "tool", tool_call_id: "c1", content: "fine" },
    { role: "user", content: "three four" },
  ],
};
const asked: Readonly<Record<string, readonly unknown[]>> = {
  "/v1/chat/completions": [
    chat,
    { ...chat, stream: true, stream_options: { include_usage: true } },
    { model: "echo", messages: chat.messages, tools: [tool], tool_choice: "auto", parallel_tool_calls: false },
    {
      ...{ model: "echo", messages: chat.messages.slice(0, 2) },
      response_format: { type: "json_schema", json_schema: { name: "answer", schema, strict: true } },
    },
  ],
  "/v1/completions": [
    { model: "echo", prompt: ["one two", "three"], max_tokens: 4, echo: true, stop: "z" },
    { model: "echo", prompt: "one", logprobs: 1, best_of: 1, suffix: null },
    { model: "echo", prompt: [1, 2, 3], max_tokens: 4, stream: true },
  ],
  "/v1/responses": [
    { model: "echo", input: "one two", max_output_tokens: 9, instructions: "be brief", stream: true },
    {
      model: "echo",
      input: [
        { role: "user", content: [{ type: "input_text", text: "one" }] },
        { type: "function_call", call_id: "c", name: "weather", arguments: "{}" },
        { type: "function_call_output", call_id: "c", output: "fine" },
      ],
      tools: [{ type: "function", name: "weather", parameters: schema }],
      text: { format: { type: "json_schema", name: "a", schema } },
    },
  ],
  "/api/chat": [
    { model: "echo", messages: [{ role: "user", content: "one" }], options: { temperature: 1, num_predict: 4 } },
    { model: "echo", messages: [{ role: "user", content: "one" }], stream: false, format: schema, tools: [tool] },
  ],
  "/v1/embeddings": [
    { model: "echo", input: ["one two", "three"], encoding_format: "base64" },
    { model: "echo", input: [[1, 2], [3]] },
  ],
  "/api/embed": [{ model: "echo", input: ["ab", "abc"], truncate: true }],
  "/api/embeddings": [{ model: "echo", prompt: "ab" }],
  "/api/generate": [{ model: "echo", prompt: "one two", system: "be brief", stream: false, format: "json" }],
};

/** Compiles a schema and goes along one answer that fits it. */
function schemaParser(): Parser {
  return {
    name: "JSON schema",
    heldMsMax: workMsMax,
    samples: json(
      schema,
      { type: "object" },
      { $defs: { a: { anyOf: [{ type: "null" }, { $ref: "#/$defs/a" }] } } },
      {
        type: "array",
        items: { type: "object", properties: { n: { $ref: "#" } } },
      },
    ),
    parse: (spoiled) => {
      const grammar = compileSchema(text(spoiled));
      const automaton = new Automaton(
        grammar,
        distancesOf(grammar, () => true),
      );
      let state: State | null = automaton.start;
      for (let length = 0; length < 64 && state !== null && state.stacks.length > 0; length++) {
        const from: State = state;
        state = null;
        for (let byte = 32; byte < 127; byte++) {
          const next = automaton.step(from, byte);
          if (next !== null && (state === null || next.distance < state.distance)) state = next;
        }
      }
    },
  };
}

const formats: readonly ToolFormat[] = ["marked", "listed", "plain"];

function toolParsers(): Parser[] {
  return [
    {
      name: "calls of tools",
      samples: bytes(
        'so <tool_call>\n{"name": "weather", "arguments": {"city": "Oslo"}}\n</tool_call>',
        '[{"name": "weather", "arguments": {"city": "Oslo"}}]',
        '{"name": "weather", "parameters": {"city": "Oslo"}}',
      ),
      parse: (spoiled) => {
        for (const format of formats)
          for (const forced of [false, true]) {
            const reader = new CallReader(format, forced);
            const said = text(spoiled);
            for (let at = 0; at < said.length; at += 7) reader.push(said.slice(at, at + 7));
            reader.end();
          }
      },
    },
    {
      name: "a tool that must be called",
      heldMsMax: workMsMax,
      samples: json(schema),
      parse: (spoiled) => {
        let parameters: Record<string, unknown>;
        try {
          parameters = JSON.parse(text(spoiled)) as Record<string, unknown>;
        } catch {
          return undefined;
        }
        // The front ends refuse what is no object.
        if (parameters === null || typeof parameters !== "object" || Array.isArray(parameters)) return undefined;
        return formats.map((format) =>
          compileSchema(forcedCall(format, [{ name: "weather", parameters }], true).schema),
        );
      },
    },
  ];
}

const study = {
  ...{ search: "tpe", schedule: "hyperband", metric: "validation_loss", seed: 3, trials: 9, parallel: 3 },
  ...{ steps: 27, every: 3, factor: 3, keep: "all", train: { network: "t1", dataset: "d", batch: 4 } },
  space: {
    rate: { "log-uniform": [0.001, 0.1] },
    batch: { choice: [2, 4] },
    schedule: { choice: ["constant", "cosine"] },
  },
};
const lineage = lineageText({
  version: 1,
  steps: [
    ...[
      { name: "a", operation: "files", settings: { paths: "x" }, inputs: [], found: { x: "1" }, records: 3, bytes: 9 },
    ],
    ...[{ name: "b", operation: "shuffle", settings: { seed: 1 }, inputs: ["a"], found: {}, records: 3, bytes: 9 }],
  ],
});

function parsedJson(spoiled: Uint8Array): Record<string, unknown> {
  try {
    const value: unknown = JSON.parse(text(spoiled));
    if (value !== null && typeof value === "object" && !Array.isArray(value)) return value as Record<string, unknown>;
  } catch {
    // Refused below, as where it is read.
  }
  throw new DcnrError("invalid_argument", "no JSON object");
}

const configs = globSync(["src/models/fixtures/*/config.json"]).map((path) => readFileSync(path));

function tableParser(name: string, request: Omit<ImportRequest, "source">, ...samples: readonly string[]): Parser {
  return fileParser(name, bytes(...samples), async (source) => {
    const blobs = { put: async () => {}, size: async () => undefined };
    await importDataset({ ...request, source }, {}, { blobs });
  });
}

export function openAskedParsers(): Parser[] {
  return [
    ...Object.entries(asked).map(([path, samples]) => bodyParser(path, json(...samples))),
    schemaParser(),
    ...toolParsers(),
    {
      name: "pipeline",
      heldMsMax: workMsMax,
      samples: globSync("examples/pipelines/*.yaml").map((path) => readFileSync(path)),
      parse: async (spoiled) => readPipeline(await parsePipelineFile(text(spoiled), "a pipeline"), "a pipeline"),
    },
    {
      name: "data job",
      samples: globSync("examples/pipelines/*.yaml").flatMap((path) => json(parseYaml(readFileSync(path, "utf8")))),
      parse: (spoiled) => readPipeline(parsedJson(spoiled), "the data job"),
    },
    { name: "study", samples: json(study), parse: (spoiled) => parseStudySpec(parsedJson(spoiled)) },
    { name: "lineage", samples: bytes(lineage), parse: (spoiled) => parseLineage(text(spoiled)) },
    {
      name: "chat format",
      samples: json({ template: "{{ messages[0].content }}", bosToken: "<s>", eosToken: "</s>", endTokens: [2] }),
      parse: (spoiled) => parseChatFormat(text(spoiled)),
    },
    {
      name: "adapter_config.json",
      samples: json({
        ...peftConfig(4, 8, ["q_proj"], { turned: false, base: "b" }),
        revision: null,
        loftq_config: {},
      }),
      parse: (spoiled) => readPeftConfig(parsedJson(spoiled)),
    },
    { name: "config.json", samples: configs, parse: (spoiled) => readDecoder(parsedJson(spoiled) as never) },
    {
      name: "origin",
      samples: bytes("https://chat.example", "http://h:8080"),
      parse: (spoiled) => parseOrigin(text(spoiled)),
    },
    tableParser("CSV", { format: "csv", labels: "species" }, 'a,b,species\n1,2.5,"x"\n3,-4e2,"y ""z"""\n'),
    tableParser("JSON lines", { format: "jsonl", textField: "text" }, '{"text":"one"}\n{"text":"two","more":[1]}\n'),
    tableParser("plain text", { format: "text" }, "It's 3 days, naïve 🙂\r\nand more\n"),
    tableParser("raw numbers", { format: "raw", dtype: "float32", shape: [2] }, "12345678".repeat(4)),
    tableParser("tokens", { format: "tokens", vocabulary: 300, dtype: "int32" }, "\x01\x00\x00\x00\x02\x01\x00\x00"),
  ];
}
