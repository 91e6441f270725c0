// Studies on production orchestrators in virtual time: PNodes that act train trials by a formula, come and go, and forget what
// they had not told; orchestrators die, the store loses replies. Whatever happened, a study comes to the table of one that
// nobody disturbed.

import type { JobRecord } from "../../src/orchestrator/records/jobs.ts";
import type { TrialRecord } from "../../src/orchestrator/records/studies.ts";
import { JobService } from "../../src/protocol/gen/dcnr/v1/job_pb.ts";
import type { SessionIdentity } from "../../src/protocol/gen/dcnr/v1/pnode_pb.ts";
import { seeded } from "../../src/scheduler/placement.testing.ts";
import type { StateStore } from "../../src/store/records/state-store.ts";
import { Stage } from "../../test/control/stage.ts";
import { RoomChecker } from "../checks/rooms.ts";

export interface StudyWorldOptions {
  readonly disturbed: boolean;
  readonly tune?: Readonly<Record<string, unknown>>;
  readonly store?: (view: StateStore) => StateStore;
  readonly patienceMs?: number;
}

export interface StudyWorldReport {
  readonly violations: readonly string[];
  readonly status: string;
  readonly result: JobRecord["result"];
  /** What must not depend on who died. */
  readonly table: readonly unknown[];
  readonly kills: number;
  readonly virtualMs: number;
}

const megabyte = 2 ** 20;
const roomForTwo = { limits: { memoryBytes: BigInt((128 + 13 * 2) * megabyte) } };

export const usualStudy = {
  ...{ search: "random", schedule: "hyperband", trials: 27, steps: 36, every: 4, parallel: 6, seed: 3 },
  space: { rate: { "log-uniform": [1e-4, 1] }, batch: { choice: [4, 8] } },
  train: {
    network: "chain",
    dataset: "data",
    split: "all",
    validation_split: "all",
    microbatches: 2,
    numerics: "reference",
  },
};

/** Best at a rate of 0.01; early values mislead a little. */
export function measured({ learningRate, batch }: SessionIdentity, step: number): number {
  const off = Math.log10(learningRate?.base ?? 1) + 2;
  return off * off + batch / 100 + 3 * Math.exp(-step / 12) * (1 + Math.abs(off) / 4);
}

export async function runStudyWorld(seed: number, options: StudyWorldOptions): Promise<StudyWorldReport> {
  const { disturbed, tune = usualStudy, store, patienceMs = 3_600_000 } = options;
  const stage = new Stage(seed, store);
  const violations: string[] = [];
  const rooms = new RoomChecker((atMs, message) => violations.push(`${Math.round(atMs)} ms: ${message}`));
  const records = new Map<string, unknown>();
  stage.store.onWrite((write) => {
    rooms.wrote(write);
    if (write.after === undefined) records.delete(write.key);
    else records.set(write.key, JSON.parse(write.after));
  });
  const random = seeded(seed);
  for (const name of ["o1", "o2"]) await stage.orchestrator(name);
  await stage.session({ seed: 999n }, "o1", false);
  const machine = (name: string) =>
    stage.pnode(name, { stepMs: 60 + Math.floor(random() * 200), register: roomForTwo, measure: measured });
  const machines = new Map(["p0", "p1", "p2"].map((name) => [name, machine(name)]));
  await stage.pass(1_500);
  const asked = { kind: "tune", key: "study", name: "study", spec: JSON.stringify(tune) };
  const [job] = (await stage.call(JobService.method.submitJobs, { jobs: [asked] })).jobs;
  const now = () => records.get(`job/${job?.id}`) as JobRecord | undefined;
  const isOver = () => ["done", "failed"].includes(now()?.status ?? "");
  let kills = 0;
  const endMs = stage.nowMs + patienceMs;
  if (disturbed) stage.store.faults = { replyLost: 0.02, requestLost: 0.02, hintDropped: 0.1, hintDelayMs: 50 };
  while (!isOver() && stage.nowMs < endMs) {
    await stage.pass(1_000 + random() * 3_000);
    if (!disturbed) continue;
    const draw = random();
    const names = Array.from(machines.keys());
    const name = names[Math.floor(random() * names.length)] as string;
    if (draw < 0.35 && machines.size > 1) {
      machines.get(name)?.kill(random() < 0.5);
      machines.delete(name);
      kills++;
    } else if (draw < 0.8) {
      const gone = ["p0", "p1", "p2"].find((one) => !machines.has(one));
      if (gone !== undefined) machines.set(gone, machine(gone));
    } else if (draw > 0.95 && stage.orchestrators.has("o1")) {
      stage.world.host("o1")?.crash(false);
      stage.orchestrators.delete("o1");
      kills++;
    }
  }
  const ended = now();
  const trials = Array.from(records)
    .filter(([name]) => name.startsWith(`trial/${job?.id}/`))
    .map(([, record]) => record as TrialRecord)
    .sort((a, b) => a.number - b.number);
  await stage.pass(40_000);
  if (rooms.claims().length > 0) violations.push(`leak: ${rooms.claims().length} claims were never given back`);
  const open = Array.from(records.values()).filter(
    (one) =>
      (one as JobRecord).trial !== undefined && ["running", "pending", "suspended"].includes((one as JobRecord).status),
  );
  if (open.length > 0) violations.push(`leak: ${open.length} trials outlive their study`);
  await stage.stop();
  return {
    violations,
    status: ended?.status ?? "",
    result: ended?.result && withoutSession(ended.result),
    table: trials.map(({ number, settings, values, status, reason, parent }) => ({
      number,
      settings,
      values,
      status,
      reason,
      parent,
    })),
    kills,
    virtualMs: stage.nowMs,
  };
}

/** A training that began anew because its last word was lost has another name. */
function withoutSession({ session: _, ...result }: Readonly<Record<string, string>>): Record<string, string> {
  return result;
}
