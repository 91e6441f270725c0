// `npm run busy -- --minutes 5 --busy 16`: trains on three PNodes beside many processes that want the same cores, and
// counts the living PNodes that are declared lost all the same.

import { type ChildProcess, spawn } from "node:child_process";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { Client } from "../src/client/client.ts";
import { Fleet, pause } from "./chaos/fleet.ts";
import { Training } from "./chaos/training.ts";

const { values } = parseArgs({
  options: {
    minutes: { type: "string", default: "5" },
    busy: { type: "string", default: "16" },
    steps: { type: "string", default: "60" },
    pnodes: { type: "string", default: "3" },
  },
});
const durationMs = Number(values.minutes) * 60_000;
const settleMs = 60_000;

const directory = await mkdtemp(join(tmpdir(), "dcnr-busy-"));
const fleet = await Fleet.start({ directory, orchestrators: 1, pnodes: Number(values.pnodes), memory: "400MB" });
const client = new Client(fleet.addresses[0] as string, { fetch });
const training = new Training(fleet.addresses);
const loops: ChildProcess[] = [];
try {
  await training.prepare();
  const calm = await training.round("calm", Number(values.steps));
  console.log(`calm        ${calm.root.slice(0, 16)}, ${rate(calm.log).toFixed(2)} steps/s`);
  // Each ends by itself, should this process die first.
  const spin = `const end = Date.now() + ${durationMs + 600_000}; while (Date.now() < end);`;
  for (let i = 0; i < Number(values.busy); i++) loops.push(spawn(process.execPath, ["-e", spin], { stdio: "ignore" }));
  const startMs = performance.now();
  const startWallMs = Date.now();
  let rounds = 0;
  let wrong = 0;
  let steps = 0;
  while (performance.now() - startMs < durationMs) {
    const round = await training.round(`busy-${rounds++}`, Number(values.steps));
    steps += Number(values.steps);
    if (round.root !== calm.root) wrong++;
    console.log(`round ${rounds}     ${round.root.slice(0, 16)}, ${rate(round.log).toFixed(2)} steps/s`);
  }
  const lost = (await client.fleet.events()).filter(({ kind }) => kind === "pnode.lost");
  const late = lost.filter(({ wallMs }) => Number(wallMs) > startWallMs + settleMs);
  console.log(`busy        ${steps} steps beside ${values.busy} busy processes, ${wrong} wrong roots`);
  console.log(`declared lost, though alive: ${lost.length}, of which after the first minute ${late.length}`);
  // The machine calms down, and a real kill is noticed in the usual time again.
  for (const loop of loops) loop.kill("SIGKILL");
  await pause(180_000);
  const [victim] = fleet.members.filter(({ role }) => role === "pnode");
  const killedMs = performance.now();
  victim?.child?.kill("SIGKILL");
  const before = lost.length;
  while ((await client.fleet.events()).filter(({ kind }) => kind === "pnode.lost").length === before) await pause(50);
  console.log(`a kill on the calm machine was noticed after ${((performance.now() - killedMs) / 1000).toFixed(1)} s`);
  process.exitCode = wrong === 0 && late.length === 0 ? 0 : 1;
} finally {
  for (const loop of loops) loop.kill("SIGKILL");
  await client.close();
  await fleet.stop();
  await rm(directory, { recursive: true, force: true });
}

function rate(log: readonly { readonly atMs: number; readonly step: number }[]): number {
  const [first, last] = [log[0], log.at(-1)];
  return first && last ? ((last.step - first.step) / (last.atMs - first.atMs)) * 1000 : 0;
}
