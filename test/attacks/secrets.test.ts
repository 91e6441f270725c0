// Secrets that were planted in a small network of real processes: an API key, an invite's token, private keys, addresses of
// blobs, a prompt and what a model answers to it. Everything that the network prints, everything that anybody may read of it, and for prompt and
// answers every file that it writes, is searched for them.

import assert from "node:assert/strict";
import { type ChildProcess, spawn } from "node:child_process";
import { globSync, mkdtempSync, readFileSync, rmSync, statSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { text } from "node:stream/consumers";
import { after, it } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import { packagePath } from "../../src/cli/machine/software.ts";
import { Client } from "../../src/client/client.ts";
import { withoutKey } from "../../src/protocol/routes/address.ts";
import { trainOnInlineData } from "../small-training.ts";
import { writeTinyModel } from "../tiny-model.ts";

const scratch = mkdtempSync(join(tmpdir(), "dcnr-secrets-"));
const children: ChildProcess[] = [];
after(() => {
  for (const child of children) child.kill("SIGKILL");
  rmSync(scratch, { recursive: true, force: true });
});

/** What the processes have said, by their names. */
const said: Record<string, string> = {};

async function start(name: string, words: readonly string[], ready: RegExp): Promise<string> {
  const flags = ["--dir", join(scratch, name), "--log-level", "debug", "--log", "json"];
  const child = spawn(process.execPath, [packagePath("bin/dcnr.js"), ...words, ...flags], {
    env: { ...process.env, DCNR_API_KEY: "", NO_COLOR: "1" },
    stdio: ["ignore", "pipe", "pipe"],
  });
  children.push(child);
  said[name] = "";
  const hear = (text: string) => {
    said[name] += text;
  };
  child.stdout.setEncoding("utf8").on("data", hear);
  child.stderr.setEncoding("utf8").on("data", hear);
  for (;;) {
    const found = ready.exec(said[name] as string);
    if (found) return found[1] ?? "";
    assert.equal(child.exitCode, null, said[name]);
    await sleep(50);
  }
}

/** A command, and all that it says. */
async function ran(words: readonly string[], environment: Record<string, string>): Promise<string> {
  const child = spawn(process.execPath, [packagePath("bin/dcnr.js"), ...words], {
    env: { ...process.env, ...environment, NO_COLOR: "1", DCNR_CONFIG: join(scratch, "person.json") },
    stdio: ["ignore", "pipe", "pipe"],
  });
  children.push(child);
  const [out, err] = await Promise.all([text(child.stdout), text(child.stderr)]);
  return out + err;
}

it("no log, event, metric or page tells a secret", async () => {
  const address = await start("orchestrator", ["orchestrator", "--listen", "127.0.0.1:0"], /(127\.0\.0\.1:[1-9]\d*)/);
  const client = new Client(address, { fetch });
  const { secret } = await client.keys.create({ name: "planted", scopes: ["admin"] });
  const note = "planted-note-0815";
  const { token, key } = await client.members.invite({ uses: 3, lifetimeSeconds: 600, note });
  await start(
    "pnode",
    ["join", `dcnr://${address}/${key}?invite=${token}`, "--listen", "127.0.0.1:0"],
    /(attached|registered|lends|joined)/i,
  );
  await trainOnInlineData(client, { steps: 12 });
  const prompt = "planted-prompt-4711";
  const authorization = `Bearer ${secret}`;
  const answers: string[] = [];
  const post = async (path: string, body: string) => {
    const headers = { authorization, "content-type": "application/json" };
    answers.push(await (await fetch(`http://${address}${path}`, { method: "POST", headers, body })).text());
  };
  const asked = [{ role: "user", content: prompt }];
  const schema = { type: "object", properties: { [prompt]: { type: "odd" } } };
  const tools = [{ type: "function", function: { name: "find", description: prompt, parameters: schema } }];
  const format = { type: "json_schema", json_schema: { name: "a", schema } };
  for (const [path, body] of Object.entries({
    "/v1/completions": { prompt },
    "/v1/chat/completions": { messages: asked, tools, tool_choice: "required" },
    "/v1/responses": { input: prompt, instructions: prompt },
    "/v1/embeddings": { input: [prompt] },
    "/api/embed": { input: prompt },
    "/api/chat": { messages: asked, format: schema },
    "/api/generate": { prompt, system: prompt },
  })) {
    const whole = JSON.stringify({ model: "none", ...body });
    await post(path, whole);
    // Cut off behind the prompt, and with something that is refused by name.
    await post(path, whole.slice(0, whole.indexOf(prompt) + prompt.length));
    await post(path, JSON.stringify({ model: "none", ...body, odd: prompt }));
  }
  await post("/v1/chat/completions", JSON.stringify({ model: "none", messages: asked, response_format: format }));
  assert.equal(answers.length, 22);
  await fetch(`http://${address}/v1/models`, { headers: { authorization: `Bearer ${secret}x` } });

  // A model that answers: what it was asked and what it said may lie nowhere, neither in the store nor with the machine that computed it.
  const folder = join(scratch, "tiny");
  const turns = "{% for m in messages %}{{ m.content }}{% endfor %}";
  writeTinyModel(folder, { template: turns, endTokens: [703], weight: (index) => Math.sin(index * index) });
  const commands = [
    ["model", "import", folder],
    ["serve", "tiny"],
  ];
  const told: string[] = [];
  for (const words of commands) told.push(await ran([...words, "--orchestrator", address], { DCNR_API_KEY: secret }));
  let model = (await client.models.list())[0];
  for (let look = 0; look < 600 && model?.status !== "ready"; look++) {
    await sleep(50);
    model = (await client.models.list())[0];
  }
  assert.equal(model?.status, "ready", `${told.join("\n")}\n${model?.reason}`);
  const made: string[] = [];
  for (const [path, body] of Object.entries({
    "/v1/completions": { prompt, max_tokens: 24 },
    "/v1/chat/completions": { messages: asked, max_tokens: 24 },
    "/v1/responses": { input: prompt, max_output_tokens: 24 },
    "/v1/embeddings": { input: [prompt] },
    "/api/generate": { prompt, stream: false, options: { num_predict: 24 } },
  })) {
    await post(path, JSON.stringify({ model: "tiny", ...body }));
    const said = /"(?:text|content|response)":"((?:[^"\\]|\\.){12,})"/.exec(answers.at(-1) as string)?.[1];
    if (said !== undefined) made.push(said);
  }

  // What is asked of a job may hold prompts; whoever may not see it gets the list alone.
  const spec = { source: "planted-source-1234", dataset: "none", split: "all", samples: 2, batch: 1 };
  await client.jobs.submit([{ kind: "evaluate", name: "planted", key: "planted-key", spec }]).catch(() => {});
  const pipeline = { steps: { read: { files: spec.source } }, save: { corpus: "read" } };
  await client.jobs.submit([{ kind: "data", name: "made", key: "another-key", spec: pipeline }]).catch(() => {});

  const read: Record<string, string> = { ...said };
  for (const [name, words] of Object.entries({
    "the CLI that is refused": ["session", "show", "none", "--orchestrator", address],
    "the CLI that cannot call": ["status", "--orchestrator", "127.0.0.1:1"],
    "the CLI with a damaged link": ["join", `dcnr://${address}/x?invite=${token}`],
    "the export of the ledger": ["credits", "export", "--orchestrator", address],
  }))
    read[name] = await ran(words, { DCNR_API_KEY: `${secret}` });
  for (const path of ["/", "/join", "/metrics", "/healthz", "/v1/models", "/api/tags"])
    read[path] = await (await fetch(`http://${address}${path}`)).text();
  const plain = (value: unknown) => JSON.stringify(value, (_, one) => (typeof one === "bigint" ? String(one) : one));
  read["events"] = plain(await client.fleet.events());
  read["machines"] = plain(await client.fleet.pnodes());
  read["jobs"] = plain(await client.jobs.list());
  read["models"] = plain(await client.models.list());
  const [pnode] = await client.fleet.pnodes();
  assert.ok(pnode, "the PNode is known");
  read["the PNode's metrics"] = await (await fetch(`http://${withoutKey(pnode.address)}/metrics`)).text();
  await client.close();

  assert.equal(made.length, 4, answers.slice(-5).join("\n"));
  const files = globSync(join(scratch, "**/*")).filter((path) => statSync(path).isFile() && !path.startsWith(folder));
  for (const file of files) {
    const content = readFileSync(file);
    // As it stands in JSON, too: a record or an event would hold it so.
    for (const text of [prompt, ...made, ...made.map((one) => JSON.parse(`"${one}"`) as string)])
      assert.ok(!content.includes(text), `${file.slice(scratch.length)} holds what was asked or answered`);
  }
  for (const [where, content] of Object.entries(read))
    for (const text of made) assert.ok(!content.includes(text), `${where} tells an answer`);

  const planted: Record<string, string> = { "API key": secret, invite: token, prompt, note, spec: spec.source };
  for (const file of files) {
    const pem = /BEGIN PRIVATE KEY-----(?:\\n|\s)+([A-Za-z0-9+/=]{40,})/.exec(readFileSync(file, "latin1"));
    if (pem) planted[`the key in ${file.slice(scratch.length)}`] = pem[1] as string;
  }
  assert.ok(Object.keys(planted).length >= 5, `keys were found: ${Object.keys(planted)}`);
  for (const [where, content] of Object.entries(read)) {
    for (const [what, value] of Object.entries(planted)) assert.ok(!content.includes(value), `${where} tells ${what}`);
    // The token in the address of a blob is a right to it.
    assert.doesNotMatch(content, /blobs\/[a-z]+\/[0-9a-f]{64}\?[^"\s]*=/, `${where} tells the address of a blob`);
  }
  assert.ok(
    (said["orchestrator"] as string).length > 500 && (said["pnode"] as string).length > 200,
    "there was something to search",
  );
});
