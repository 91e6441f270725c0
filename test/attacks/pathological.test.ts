// M and O: files that were made to take long or to break what reads them, given to an orchestrator as people give it theirs.
// Each is refused by a sentence, and the thread that answers everybody else does not stop for it.

import assert from "node:assert/strict";
import { after, before, describe, it } from "node:test";
import { auditBlobBytesMax } from "../../src/core/blobs.ts";
import { DcnrError } from "../../src/core/errors.ts";
import { sha256 } from "../../src/core/hash.ts";
import { tokenizerJson } from "../../src/data/bpe/json.ts";
import { importOnnx } from "../../src/network/onnx/import-onnx.ts";
import type { Context } from "../../src/orchestrator/context.ts";
import type { ModelRecord } from "../../src/orchestrator/records/sessions.ts";
import { Prompts } from "../../src/orchestrator/serving/prompts.ts";
import { NetworkService } from "../../src/protocol/gen/dcnr/v1/network_pb.ts";
import { openMemoryBlobs } from "../../src/store/memory.ts";
import { openAside } from "../../src/system/threads/aside.ts";
import { listedMax, writeInputs, writeOutputs } from "../../src/trust/lists.ts";
import { firstDifference, inputHashes, inputsRead, lackingIn } from "../../src/trust/works.ts";
import { Lab, refused } from "./lab.ts";

/** No input may hold the thread that answers longer. */
const heldMsMax = 50;

/** The longest that one turn of this thread computed while `run` was under way, by its CPU time: the least of three times. */
async function heldMs(run: () => Promise<unknown>): Promise<number> {
  const cpuMs = () => {
    const { user, system } = process.threadCpuUsage();
    return (user + system) / 1_000;
  };
  let least = Number.POSITIVE_INFINITY;
  for (let turn = 0; turn < 3 && least > heldMsMax; turn++) {
    let most = 0;
    let isOver = false;
    const over = run().finally(() => {
      isOver = true;
    });
    for (let startMs = cpuMs(); !isOver; startMs = cpuMs()) {
      await new Promise((resolve) => setImmediate(resolve));
      most = Math.max(most, cpuMs() - startMs);
      // Between two looks the thread sleeps, as it would otherwise.
      await new Promise((resolve) => setTimeout(resolve, 1));
    }
    await over;
    least = Math.min(least, most);
  }
  return least;
}

const aside = openAside();
after(() => aside.close());

describe("M: lists of messages", () => {
  const interval = { session: "s", vnode: "a", from: 0, to: 2 };
  const messages = Array.from({ length: listedMax }, (_, i) => ({
    ...{ key: `1/${i}/f/a>b`, hash: sha256(String(i)), sender: "p".repeat(52), life: "l", signature: "s".repeat(88) },
  }));
  const inputs = writeInputs({ ...interval, messages, keys: {} }).content;
  const outputs = writeOutputs({
    ...{ ...interval, steps: [], measures: [], evaluations: [] },
    messages: messages.map(({ key, hash }, i) => [key, i === listedMax - 1 ? sha256("another") : hash] as const),
  }).content;

  it("as long as they get are read for audits and disputes, and hold nobody up", async () => {
    const listing = () => inputHashes(aside, inputs, interval);
    assert.equal((await listing()).length, messages.length);
    const compared = { sent: { content: outputs, interval }, taken: { content: inputs, interval }, edge: "f/a>b" };
    const comparing = () => firstDifference(aside, compared);
    assert.equal((await comparing())?.input.key, `1/${listedMax - 1}/f/a>b`);
    for (const run of [listing, comparing]) {
      const held = await heldMs(run);
      assert.ok(held < heldMsMax, `${held} ms`);
    }
  });

  it("made of nothing but small things, as large as is stored at all, are refused before they fill the memory", async () => {
    for (const thing of ["{}", '{"a":[]}']) {
      const rubbish = Buffer.from(`[${`${thing},`.repeat(Math.floor(auditBlobBytesMax / (thing.length + 1)) - 2)}0]`);
      await refused(inputHashes(aside, rubbish, interval), "data_loss", /too many small things/);
      const looked = { content: rubbish, interval, edges: {}, present: new Set<string>() };
      assert.equal((await lackingIn(aside, looked)).kind, "unfit");
    }
  });

  it("that name more than are read are refused", async () => {
    const [more] = messages;
    const { content } = writeInputs({
      ...interval,
      messages: [...messages, more as (typeof messages)[number]],
      keys: {},
    });
    await refused(inputsRead(aside, content, interval), "data_loss", /at most 131072 are read/);
    assert.equal((await inputsRead(aside, inputs, interval)).messages.length, listedMax);
  });

  it("that are none are refused by a sentence", async () => {
    const rubbish = Buffer.from("[".repeat(1_000_000));
    await refused(inputHashes(aside, rubbish, interval), "data_loss", /cannot be used/);
    await refused(inputHashes(aside, inputs, { ...interval, to: 4 }), "data_loss", /is not of VNode a/);
  });
});

describe("M: definitions", () => {
  let lab: Lab;
  before(async () => {
    lab = await Lab.open({ aside });
  });
  after(() => lab.close());

  const bodies: Readonly<Record<string, string>> = {
    "a list of four megabytes": `name: x\nnodes: [${"a, ".repeat(1_300_000)}a]\n`,
    "a list as long as is read at all": `name: x\nnodes: [${"a, ".repeat(100_000)}a]\n`,
    "lists within lists": `name: x\nnodes: ${"[".repeat(100_000)}\n`,
    "lists within lists without brackets": `name: x\nnodes: ${"- ".repeat(3_000)}a\n`,
    "aliases of aliases": `a: &a [x, x, x, x, x, x, x, x, x]\n${Array.from({ length: 12 }, (_, i) => {
      const [now, before] = [String.fromCharCode(98 + i), String.fromCharCode(97 + i)];
      return `${now}: &${now} [${`*${before}, `.repeat(9)}]`;
    }).join("\n")}\n`,
  };
  for (const [what, definition] of Object.entries(bodies))
    it(`${what} are refused, and hold nobody up`, async () => {
      const person = await lab.person("train");
      const ask = () =>
        refused(lab.call(person, NetworkService.method.createNetwork, { definition }), "invalid_argument");
      const held = await heldMs(ask);
      assert.ok(held < heldMsMax, `${held} ms`);
    });
});

describe("M: vocabularies and chat templates", () => {
  const good = tokenizerJson({ tokens: ["a", "b", "c", " ", "ab"], specials: [], merges: [["a", "b"]] });
  const split = (pattern: string) =>
    JSON.stringify({
      ...JSON.parse(good),
      pre_tokenizer: { type: "Split", pattern: { Regex: pattern }, behavior: "Isolated" },
    });

  async function asked(tokenizer: string, template: string, prompt: string): Promise<unknown> {
    const blobs = openMemoryBlobs();
    const put = async (space: "vocabularies", text: string) => {
      const content = new TextEncoder().encode(text);
      await blobs[space].put(sha256(content), content, content.byteLength);
      return sha256(content);
    };
    const chat =
      template && (await put("vocabularies", JSON.stringify({ template, bosToken: "", eosToken: "", endTokens: [] })));
    const model = { name: "m", tokenizer: await put("vocabularies", tokenizer), chat, context: 1e9, vocabulary: 0 };
    const prompts = new Prompts({ blobs, aside } as unknown as Context);
    const turns = [{ role: "user" as const, content: prompt }];
    return prompts.of(model as unknown as ModelRecord, { prompt: template ? { turns } : prompt });
  }

  const patterns = ["(?:a*){5}b", "(a+)+$", "(?:a|aa)*b", "a*a*a*a*b", String.raw`(\p{L}*){9}!`];
  for (const pattern of patterns)
    it(`the pattern ${pattern} is refused`, async () => {
      const attempt = () => asked(split(pattern), "", "a".repeat(50_000)).catch((thrown) => thrown);
      const held = await heldMs(attempt);
      assert.ok(held < heldMsMax, `${held} ms`);
      const outcome = await attempt();
      assert.ok(outcome instanceof DcnrError, String(outcome));
      assert.match(outcome.message, /could take for ever/);
    });

  const templates: Readonly<Record<string, string>> = {
    replaces: `{% for i in range(100000) %}{{ messages[0].content | replace("a", "aaaaaaaaaa") }}{% endfor %}`,
    grows:
      "{% set ns = namespace(t='aaaaaaaa') %}{% for i in range(40) %}{% set ns.t = ns.t ~ ns.t %}{% endfor %}{{ ns.t }}",
    loops:
      "{% for i in range(99999) %}{% for j in range(99999) %}{% for k in range(99999) %}x{% endfor %}{% endfor %}{% endfor %}",
  };
  it("the same with nothing odd about them are used", async () => {
    await asked(split("a+|b"), "", "abba");
    await asked(good, "{{ messages[0].content }}", "abba");
  });

  for (const [what, template] of Object.entries(templates))
    it(`a chat template that ${what} is ended`, async () => {
      const attempt = () => asked(good, template, "a".repeat(50_000)).catch((thrown) => thrown);
      const held = await heldMs(attempt);
      assert.ok(held < heldMsMax, `${held} ms`);
      const outcome = await attempt();
      assert.ok(outcome instanceof DcnrError && outcome.code !== "internal", String(outcome));
      assert.match(outcome.message, /template|prompt/);
    });
});

/** Protocol buffers by hand: what no builder of ours would write. */
const varint = (value: number): number[] =>
  value < 128 ? [value] : [(value % 128) | 128, ...varint(Math.floor(value / 128))];
const field = (number: number, content: Uint8Array | number[] | string): Uint8Array => {
  const bytes = typeof content === "string" ? Buffer.from(content) : Uint8Array.from(content);
  return Buffer.concat([Uint8Array.from([...varint(number * 8 + 2), ...varint(bytes.length)]), bytes]);
};
const whole = (number: number, value: number): Uint8Array => Uint8Array.from([...varint(number * 8), ...varint(value)]);
const message = (...fields: Uint8Array[]): Uint8Array => Buffer.concat(fields);
const floats = (count: number) => new Uint8Array(new Float32Array(count).fill(1).buffer);

const float32 = 1;
const int64 = 7;
const tensor = (dims: number[], type: number, ...data: Uint8Array[]) =>
  message(...dims.map((dim) => whole(1, dim)), whole(2, type), ...data, field(8, "w"));
const valueInfo = (name: string) => {
  const shape = message(field(1, whole(1, 1)), field(1, whole(1, 4)));
  return message(field(1, name), field(2, field(1, message(whole(1, float32), field(2, shape)))));
};
const graph = (node: Uint8Array, weight: Uint8Array) => {
  const inner = message(
    field(1, node),
    field(2, "g"),
    field(5, weight),
    field(11, valueInfo("x")),
    field(12, valueInfo("y")),
  );
  return message(whole(1, 8), field(8, message(field(1, ""), whole(2, 17))), field(7, inner));
};
const adding = (...attributes: Uint8Array[]) =>
  message(field(1, "x"), field(1, "w"), field(2, "y"), field(4, "Add"), ...attributes.map((one) => field(5, one)));
const four = tensor([1, 4], float32, field(9, floats(4)));
const options = { name: "m", trainable: ["w"] };

describe("O: ONNX files", () => {
  const files: Readonly<Record<string, Uint8Array>> = {
    "a tensor with fewer bytes than its shape says": graph(adding(), tensor([1, 4], float32, field(9, floats(3)))),
    "a tensor whose bytes are no whole number of values": graph(adding(), tensor([1, 4], float32, field(9, [1, 2, 3]))),
    "a tensor of a shape beyond all memory": graph(
      adding(),
      tensor([2 ** 31, 2 ** 31, 2 ** 31], float32, field(9, floats(4))),
    ),
    "floats in a tensor of int64": graph(adding(), tensor([1, 4], int64, field(4, floats(4)))),
    "200,000 floats in an attribute": graph(
      adding(message(field(1, "odd"), field(7, floats(200_000)), whole(20, 6))),
      four,
    ),
    "a tensor of a type that nobody has": graph(adding(), tensor([1, 4], 99, field(9, floats(4)))),
  };
  for (const [what, file] of Object.entries(files))
    it(`${what}: a sentence of ours, never a TypeError or RangeError`, () => {
      assert.throws(
        () => importOnnx(file, options as never),
        (thrown) => {
          assert.ok(thrown instanceof DcnrError, String(thrown));
          return true;
        },
      );
    });

  it("and the same file without what is odd is read", () => {
    assert.doesNotThrow(() => importOnnx(graph(adding(), four), options as never));
  });
});
