import assert from "node:assert/strict";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { DcnrError } from "../../core/errors.ts";
import { openGrpcNetwork } from "../../protocol/grpc.ts";
import type { Network } from "../../protocol/network.ts";
import { newIdentity } from "../../system/keys.ts";
import { backgroundTimers } from "../../system/timers.ts";
import { realWorld } from "../../system/world.ts";
import { orchestratorsAt } from "./introduction.ts";

/** Whoever is asked shows a key, and answers as `answers` say, one after another. */
async function asked(answers: readonly DcnrError[], patienceMs: number): Promise<{ found: string[]; calls: number }> {
  const directory = await mkdtemp(join(tmpdir(), "dcnr-introduction-"));
  const wires = openGrpcNetwork({ timers: backgroundTimers, identity: newIdentity() });
  const listening = await wires.serve("127.0.0.1:0", []);
  let calls = 0;
  const network = {
    call: async () => {
      throw answers[Math.min(calls++, answers.length - 1)];
    },
  } as unknown as Network;
  try {
    const found = await orchestratorsAt([listening.address], {
      ...{ path: join(directory, "networks.json"), network, world: realWorld({ logFormat: "none" }) },
      ...{ say: () => {}, patienceMs, signal: new AbortController().signal },
    });
    return { found, calls };
  } finally {
    await listening.close();
    await wires.close();
    await rm(directory, { recursive: true });
  }
}

const late = new DcnrError("deadline_exceeded", "no answer within 5000 ms");
const noMember = new DcnrError("unimplemented", "it introduces nobody");

test("a member that answers late is asked again as long as there is patience", async () => {
  const { found, calls } = await asked([late, noMember], Number.POSITIVE_INFINITY);
  assert.deepEqual([found.length, calls], [1, 2]);
  await assert.rejects(asked([late], 0), /no answer within/);
});

test("what will not pass is said at once", async () => {
  const refused = new DcnrError("permission_denied", "members alone");
  await assert.rejects(asked([refused, noMember], Number.POSITIVE_INFINITY), /members alone/);
});
