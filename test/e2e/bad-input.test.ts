// What goes wrong ends with one sentence that names the thing and the remedy, an exit code that is not 0, and no
// stack trace.

import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, test } from "node:test";
import { fail } from "../../src/core/errors.ts";
import type { KeyId } from "../../src/core/ids.ts";
import { PNodeService } from "../../src/protocol/gen/dcnr/v1/pnode_pb.ts";
import { openGrpcNetwork } from "../../src/protocol/grpc.ts";
import { service } from "../../src/protocol/network.ts";
import { withKey } from "../../src/protocol/routes/address.ts";
import { newIdentity } from "../../src/system/keys.ts";
import { backgroundTimers } from "../../src/system/timers.ts";
import { dcnr, type Ran, withNetwork } from "./world.ts";

const folder = mkdtempSync(join(tmpdir(), "dcnr-bad-"));
after(() => rmSync(folder, { recursive: true, force: true }));

function file(name: string, content: string | Uint8Array): string {
  const path = join(folder, name);
  writeFileSync(path, content);
  return path;
}

/** One sentence on standard error, no stack. */
function fails({ code, err }: Ran, pattern: RegExp, expectedCode?: number): void {
  assert.notEqual(code, 0);
  if (expectedCode !== undefined) assert.equal(code, expectedCode, err);
  assert.match(err, pattern);
  assert.doesNotMatch(err, /\n\s+at /, "no stack trace");
  assert.equal(
    err
      .trim()
      .split("\n")
      .filter((line) => line.startsWith("dcnr: ")).length,
    1,
    err,
  );
}

test("a wrong command or flag suggests the right one", async () => {
  fails(await dcnr(["statsu"]), /did you mean "status"/, 2);
  fails(await dcnr(["nodes", "--jsno"]), /did you mean "--json"/, 2);
  fails(await dcnr(["train"]), /needs NETWORK/, 2);
  fails(await dcnr(["up", "--pnodes", "many"]), /--pnodes takes a whole number/, 2);
});

test("an orchestrator that nobody runs is named, with what to do", async () => {
  fails(await dcnr(["status", "--orchestrator", "127.0.0.1:1"]), /nothing answers at 127\.0\.0\.1:1: check/, 4);
  fails(await dcnr(["status", "--orchestrator", "nonsense"]), /not an address: write host:port/, 2);
});

test("a machine that no orchestrator takes does not wait for ever, and says why", async () => {
  const network = openGrpcNetwork({ timers: backgroundTimers, identity: newIdentity() });
  const refuse = async () => fail("failed_precondition", "speak protocol 9: install dcnr 9");
  const handlers = Object.fromEntries(Object.keys(PNodeService.method).map((name) => [name, refuse]));
  const foreign = await network.serve("127.0.0.1:0", [service(PNodeService, handlers as never)]);
  const lend = (address: string) => dcnr(["join", address, "--dir", join(folder, address), "--cpus", "1"]);
  try {
    const [nobody, refused] = await Promise.all([lend("127.0.0.1:1"), lend(foreign.address)]);
    fails(nobody, /nothing answers at 127\.0\.0\.1:1: check .*--wait/, 4);
    fails(refused, /speak protocol 9: install dcnr 9.*--wait/);
  } finally {
    await foreign.close();
    await network.close();
  }
});

test("of several addresses that nobody answers at all are named", async () => {
  const places = ["127.0.0.1:1", "127.0.0.1:2", "127.0.0.1:3"];
  const ran = await dcnr(["join", ...places, "--dir", join(folder, "several"), "--cpus", "1"]);
  fails(ran, /none of these addresses answers: 127\.0\.0\.1:1, 127\.0\.0\.1:2, 127\.0\.0\.1:3\. .*--wait/, 4);
});

test("a job that can never start says so where people look, and lists of nothing say that", () =>
  withNetwork(1, async ({ local: { orchestrator } }) => {
    const at = (...words: string[]) => dcnr([...words, "--orchestrator", orchestrator.address]);
    assert.match((await at("tune", "list")).out, /^No studies\./);
    assert.equal((await at("network", "create", "examples/mlp.yaml")).code, 0);
    assert.equal((await at("train", "mlp", "--dataset", "mnist", "--needs-gpus", "1", "--detach")).code, 0);
    assert.match(
      (await at("status")).out,
      /waits: job mlp-\w+: it can never start on the PNodes that are online: needs 1 GPU/,
    );
    fails(await dcnr(["status", "--orchestrator", `https://${orchestrator.address}`]), /leave out https:/, 4);
  }));

test("what is named and not there is said to be missing, with where to look; nothing ends empty and well", () =>
  withNetwork(0, async ({ local }) => {
    const at = (...words: string[]) => dcnr([...words, "--orchestrator", local.orchestrator.address]);
    const samples = '{"inputs": [[0,0],[0,1]], "labels": [0,1]}';
    const created = await at("network", "create", "examples/mlp.yaml");
    assert.match(created.out, /^created network mlp/);
    for (const [words, sentence, code] of [
      [["vnodes", "nosuch"], /there is no session nosuch: .*session list/, 3],
      [["session", "metrics", "nosuch", "--name", "loss"], /there is no session nosuch/, 3],
      [["events", "--session", "zzz"], /there is no session zzz/, 3],
      [["model", "import", "README.md"], /README\.md is no model: give a Hugging Face folder, a \.gguf file, or/, 2],
      [["vocab", "add", "v", "nosuch"], /there is no file nosuch: give the path of a tokenizer\.json/, 3],
      [["train", "mlp", "--dataset", "nosuch"], /there is no dataset "nosuch": add it with/, 3],
      [["train", "mlp", "--dataset", "mnist", "--rate", "-1"], /--rate takes a number from/, 2],
      [["train", "mlp", "--dataset", "mnist", "--batch", "0"], /--batch takes a whole number from 1/, 2],
      [["infer", "nosuch", "Call me"], /there is no model "nosuch": see dcnr model list/, 3],
      [["serve", "nosuch"], /there is neither a session nor a model "nosuch"/, 3],
    ] as const)
      fails(await at(...words), sentence, code);
    const again = await at("network", "create", "examples/mlp.yaml");
    assert.match(again.out, /^already there: network mlp/);
    assert.equal((await at("dataset", "add", "xor", samples)).code, 0);
    fails(await at("dataset", "show", "xor", "--start", "999999"), /there is no sample 999999: the dataset has 2/, 2);
    for (const [words, nothing] of [
      [["session", "list"], /^No sessions/],
      [["model", "list"], /^No models/],
      [["nodes"], /^No PNode has joined yet/],
      [["job", "list"], /^No jobs/],
      [["vocab", "list"], /^No vocabularies/],
      [["provider", "list"], /^No providers/],
      [["key", "list"], /^No API keys/],
    ] as const)
      assert.match((await at(...words)).out, nothing, words.join(" "));
    fails(
      await dcnr(["status", "--orchestrator", "no.such.name.invalid:7700"]),
      /no machine is known by the name in no\.such\.name\.invalid:7700: check its spelling/,
      4,
    );
  }));

test("a mistyped command gets the nearest one, and help knows commands", async () => {
  fails(await dcnr(["hlep"]), /did you mean "help"/, 2);
  fails(await dcnr(["trian", "mlp"]), /did you mean "train"/, 2);
  fails(await dcnr(["network", "creat", "a.yaml"]), /did you mean "network create"/, 2);
  fails(await dcnr(["network", "frobnicate"]), /network has create, /, 2);
  const { out } = await dcnr(["help", "train"]);
  assert.match(out, /^Usage: dcnr train NETWORK/m);
});

test("a number that means nothing is refused with what is possible", async () => {
  const lend = (...words: string[]) => dcnr(["join", "127.0.0.1:1", "--dir", join(folder, "numbers"), ...words]);
  fails(await lend("--cpus", "0"), /--cpus takes a number of 0.05 or more, not "0"/, 2);
  fails(await lend("--cpus", "9999"), /more than this machine has/, 2);
  fails(await lend("--memory", "8"), /--memory takes a size such as 8GB/, 2);
  fails(await lend("--bandwidth", "fast"), /--bandwidth takes a rate such as 10MB\/s/, 2);
  fails(await lend("--advertise", "nowhere"), /--advertise takes an address that others can call/, 2);
  fails(await dcnr(["up", "--pnodes", "3.5"]), /--pnodes takes a whole number/, 2);
  fails(await dcnr(["chat", "gpt", "--max-tokens=-1"]), /--max-tokens takes a whole number from 1/, 2);
});

test("a port in use is named", async () => {
  const holder = createServer();
  await new Promise<void>((resolve) => holder.listen(0, "127.0.0.1", () => resolve()));
  const { port } = holder.address() as { port: number };
  try {
    fails(
      await dcnr(["orchestrator", "--listen", `127.0.0.1:${port}`, "--dir", join(folder, "port")]),
      new RegExp(`port ${port}.* in use`),
      1,
    );
    fails(
      await dcnr(["up", "--listen", `127.0.0.1:${port}`, "--dir", join(folder, "port")]),
      new RegExp(`port ${port}.* in use`),
    );
  } finally {
    holder.close();
  }
});

test("a place that cannot be used is named: a directory, an address", async () => {
  const inFile = join(file("a-file", "not a folder"), "state");
  for (const words of [
    ["orchestrator", "--listen", "127.0.0.1:0"],
    ["up", "--listen", "127.0.0.1:0"],
    ["join", "127.0.0.1:1"],
  ])
    fails(await dcnr([...words, "--dir", inFile]), /cannot use the directory .*Choose another with --dir/);
  const elsewhere = ["--listen", "192.0.2.1:7700", "--dir", join(folder, "elsewhere")];
  fails(await dcnr(["orchestrator", ...elsewhere]), /192\.0\.2\.1 is not an address of this machine: listen on/, 2);
});

test("a store file that is no database is named and left alone", async () => {
  const path = file("broken.db", "this is not a database, not even a little, ".repeat(50));
  const words = ["orchestrator", "--listen", "127.0.0.1:0", "--dir", join(folder, "d"), "--store", `sqlite:${path}`];
  fails(await dcnr(words), /broken\.db/);
});

test("an unknown store is answered with the known ones", async () => {
  fails(
    await dcnr(["orchestrator", "--listen", "127.0.0.1:0", "--dir", folder, "--store", "mongo:x"]),
    /sqlite:PATH/,
    2,
  );
});

test("a malformed network is refused with node, key and expectation", () =>
  withNetwork(0, async ({ local, client }) => {
    const environment = { DCNR_ORCHESTRATOR: local.orchestrator.address };
    const create = (name: string, text: string) => dcnr(["network", "create", file(name, text)], environment);
    fails(
      await create("a.yaml", "nodes: [{ id: x, type: lniear, config: { in_dim: 2, out_dim: 2 } }]"),
      /lniear.*did you mean "linear"/,
    );
    fails(await create("b.yaml", "nodes: [unclosed"), /./);
    fails(await create("c.yaml", "nodes: [{ id: x, type: linear, config: { out_dim: -3 } }]"), /out_dim/);
    fails(await dcnr(["network", "create", join(folder, "missing.yaml")], environment), /there is no file/, 3);
    assert.deepEqual(await client.networks.list(), [], "nothing was created");
    fails(await dcnr(["network", "show", "none"], environment), /there is no network/, 3);
    fails(await dcnr(["train", "none", "--dataset", "mnist"], environment), /none/, 3);
    fails(await dcnr(["session", "show", "none"], environment), /none/, 3);
  }));

test("a PNode of another protocol version is refused with the version that is needed", () =>
  withNetwork(0, async ({ local }) => {
    const network = openGrpcNetwork({ timers: backgroundTimers, identity: newIdentity() });
    const { address, key } = local.orchestrator;
    const channel = network.open(withKey(address, key as KeyId), PNodeService.method.attach);
    await channel.send({ event: { case: "register", value: { protocolMajor: 9 } } });
    await assert.rejects(
      (async () => {
        for await (const _ of channel.incoming);
      })(),
      /protocol.*1/,
    );
    await network.close();
  }));

test("Ctrl-C ends a long-running command cleanly", async () => {
  const child = spawn(
    process.execPath,
    ["bin/dcnr.js", "orchestrator", "--listen", "127.0.0.1:0", "--dir", join(folder, "ctrl-c")],
    {
      stdio: ["ignore", "pipe", "pipe"],
    },
  );
  await new Promise((resolve) => child.stdout.once("data", resolve));
  child.kill("SIGINT");
  const code = await new Promise((resolve) => child.once("exit", resolve));
  assert.equal(code, 0);
});

test("a reader that is slow to take a long answer gets all of it", async () => {
  // Nobody reads for a while: a command that just left would take along what the pipe could not hold.
  const line = `"${process.execPath}" bin/dcnr.js network analyze examples/t2.yaml --json | { sleep 2; cat; }`;
  const child = spawn("sh", ["-c", line], { stdio: ["ignore", "pipe", "inherit"] });
  let text = "";
  for await (const piece of child.stdout.setEncoding("utf8")) text += piece;
  assert.ok(text.length > 65_536, `more than a pipe holds, not ${text.length}`);
  JSON.parse(text);
});
