// The wire contract is gRPC and nothing else: clients that share no line of code with ours speak to a live
// orchestrator. One is gRPC's own implementation for Node, the other is Python with stubs generated from proto/.

import assert from "node:assert/strict";
import { execFile, spawnSync } from "node:child_process";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, describe, test } from "node:test";
import { promisify } from "node:util";
import grpc from "@grpc/grpc-js";
import { loadSync } from "@grpc/proto-loader";
import { type TestNetwork, withNetwork } from "./e2e/world.ts";
import { smallNetwork, trainOnInlineData } from "./small-training.ts";

const run = promisify(execFile);
/** Another interpreter than the usual one, such as that of a virtual environment with grpcio and grpcio-tools. */
const python = process.env["DCNR_TEST_PYTHON"] ?? "python3";
const protoFiles = ["network", "session", "fleet", "system"].map((name) => `dcnr/v1/${name}.proto`);

type Answer = Record<string, unknown>;
type Unary = (request: object, done: (error: grpc.ServiceError | null, answer: Answer) => void) => void;

/** A service as gRPC for Node sees it: unary calls as promises, streams as they are. */
function serviceOf(name: string, address: string) {
  const definition = loadSync(protoFiles, { includeDirs: ["proto"], longs: String });
  const loaded = grpc.loadPackageDefinition(definition) as never as {
    dcnr: { v1: Record<string, grpc.ServiceClientConstructor> };
  };
  const Service = loaded.dcnr.v1[name] as grpc.ServiceClientConstructor;
  const client = new Service(address, grpc.credentials.createInsecure());
  const method = (called: string) => (client[called] as Unary).bind(client);
  return {
    call: (called: string, request: object = {}) =>
      new Promise<Answer>((resolve, reject) =>
        method(called)(request, (error, answer) => (error ? reject(error) : resolve(answer))),
      ),
    stream: (called: string, request: object = {}): AsyncIterable<Answer> =>
      (client[called] as (request: object) => grpc.ClientReadableStream<Answer>).call(client, request),
    close: () => client.close(),
  };
}

describe("clients in other languages", () => {
  let network: TestNetwork;
  let session = "";
  let finished = () => {};
  let running: Promise<void>;

  before(async () => {
    await new Promise<void>((ready, failed) => {
      const until = new Promise<void>((resolve) => {
        finished = resolve;
      });
      running = withNetwork(1, async (started) => {
        network = started;
        session = (await trainOnInlineData(network.client, { steps: 8 })).id;
        ready();
        await until;
      });
      running.catch(failed);
    });
  });

  after(() => {
    finished();
    return running;
  });

  test("gRPC for Node makes unary calls", async () => {
    const networks = serviceOf("NetworkService", network.local.orchestrator.address);
    const listed = (await networks.call("listNetworks")) as { networks: { id: string; parameters: string }[] };
    assert.deepEqual(
      listed.networks.map(({ id }) => id),
      ["small"],
    );
    const created = (await networks.call("createNetwork", { definition: smallNetwork, id: "again" })) as {
      network: { hash: string };
    };
    assert.match(created.network.hash, /^[0-9a-f]{64}$/);
    networks.close();
  });

  test("gRPC for Node reads a server's stream to its end", async () => {
    const sessions = serviceOf("SessionService", network.local.orchestrator.address);
    const seen: string[] = [];
    for await (const update of sessions.stream("watchSession", { id: session }))
      seen.push((update as { session: { status: string } }).session.status);
    assert.equal(seen.at(-1), "done");
    sessions.close();
  });

  test("errors arrive as gRPC's own codes with our sentence", async () => {
    const sessions = serviceOf("SessionService", network.local.orchestrator.address);
    await assert.rejects(sessions.call("getSession", { id: "nothing" }), (error: grpc.ServiceError) => {
      assert.equal(error.code, grpc.status.NOT_FOUND);
      assert.match(error.details, /no session nothing/);
      return true;
    });
    sessions.close();
  });

  const missing = spawnSync(python, ["-c", "import grpc, grpc_tools"]).status !== 0;
  const skip = missing && `SKIPPED: ${python} has no grpcio and grpcio-tools, so no Python client was tried`;
  if (skip) console.log(`\n!! ${skip}; DCNR_TEST_PYTHON names another interpreter\n`);

  test("Python lists networks and nodes with stubs from proto/", { skip }, async () => {
    const stubs = await mkdtemp(join(tmpdir(), "dcnr-stubs-"));
    try {
      const out = [`--python_out=${stubs}`, `--grpc_python_out=${stubs}`];
      const all = [...protoFiles, "dcnr/v1/common.proto", "dcnr/v1/pnode.proto"];
      await run(python, ["-m", "grpc_tools.protoc", "-I", "proto", ...out, ...all]);
      const environment = { ...process.env, PYTHONPATH: stubs };
      const { stdout } = await run(
        python,
        ["test/other-language.py", network.local.orchestrator.address, session, "missing"],
        { env: environment, timeout: 60_000 },
      );
      const told = JSON.parse(stdout) as Record<string, unknown>;
      assert.ok((told["networks"] as string[]).includes("small"));
      assert.deepEqual(told["nodes"], [{ name: "maple", status: "online" }]);
      assert.equal(told["watched"], "done");
      assert.equal(told["refused"], "NOT_FOUND");
    } finally {
      await rm(stubs, { recursive: true, force: true });
    }
  });
});
