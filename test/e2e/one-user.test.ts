// A directory has one user: a second `dcnr up` or `dcnr join` on it is told who has it, and no identity is ever in two
// processes. Whoever was killed leaves nothing behind that keeps the next one out.

import assert from "node:assert/strict";
import { type ChildProcess, execFile, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { promisify } from "node:util";

interface Up {
  readonly child: ChildProcess;
  readonly address: string;
  readonly ids: readonly string[];
}

const dcnr = join(import.meta.dirname, "../../bin/dcnr.js");
let folder: string;
before(async () => {
  folder = await mkdtemp(join(tmpdir(), "dcnr-one-user-"));
});
after(() => rm(folder, { recursive: true, force: true }));

const words = (directory: string) => ["up", "--pnodes", "1", "--listen", "127.0.0.1:0", "--dir", directory, "--json"];

async function up(directory: string): Promise<Up> {
  const child = spawn(process.execPath, [dcnr, ...words(directory)], { stdio: ["ignore", "pipe", "inherit"] });
  let printed = "";
  for await (const piece of child.stdout) {
    printed += piece;
    if (printed.trimEnd().endsWith("}")) break;
  }
  const { orchestrator, pnodes } = JSON.parse(printed) as {
    orchestrator: { address: string };
    pnodes: { id: string }[];
  };
  return { child, address: orchestrator.address, ids: pnodes.map(({ id }) => id) };
}

async function end({ child }: Up, signal: NodeJS.Signals): Promise<void> {
  const ended = once(child, "exit");
  child.kill(signal);
  await ended;
}

const refusal = (...args: string[]): Promise<{ code: number; stderr: string }> =>
  promisify(execFile)(process.execPath, [dcnr, ...args]).then(
    () => assert.fail(`dcnr ${args.join(" ")} was not refused`),
    (error) => error,
  );

test("a second dcnr up on a directory is told who has it and where; after a kill the same PNodes come back", async () => {
  const directory = join(folder, "network");
  const first = await up(directory);
  try {
    const { code, stderr } = await refusal(...words(directory));
    assert.equal(code, 1);
    assert.match(
      stderr,
      new RegExp(`in use: dcnr up \\(process ${first.child.pid}\\) has it since \\d\\d:\\d\\d, .*${first.address}`),
    );
  } finally {
    await end(first, "SIGKILL");
  }
  const again = await up(directory);
  await end(again, "SIGTERM");
  assert.deepEqual(again.ids, first.ids);
});

test("a second dcnr join on a PNode's directory is told who has it", async () => {
  const network = await up(join(folder, "lent"));
  try {
    const taken = join(folder, "lent", "pnodes", "maple");
    const { code, stderr } = await refusal("join", network.address, "--dir", taken, "--name", "another");
    assert.equal(code, 1);
    assert.match(stderr, /in use: dcnr join as maple \(process \d+\) has it/);
  } finally {
    await end(network, "SIGTERM");
  }
});
