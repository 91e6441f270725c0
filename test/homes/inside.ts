// The inside of homes.test.ts and of `npm run homes`: one case, as the internet, in a namespace where nobody else is.

import assert from "node:assert/strict";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Client } from "../../src/client/client.ts";
import { type Case, type CaseName, cases } from "./cases.ts";
import { answered, Houses, internetHost, type Machine, until } from "./houses.ts";
import { type Subject, type SubjectName, subjects } from "./subjects.ts";

const port = 443;
/** Heartbeats and states do not go by relays; nine steps of the demo's GPT exchange much more than this. */
const littleBytes = 1_000_000;

/** Shown if something goes wrong: what happened when. */
function stage(what: string): void {
  console.log(`${new Date().toISOString().slice(11, 23)} ${what}`);
}

async function main(
  { homes, volunteers = 0, reached, tensors, websocket, middle }: Case,
  subject: Subject,
): Promise<void> {
  const at = `${internetHost}:${port}`;
  const relay = volunteers === 0 ? ["--relay"] : [];
  houses.start(
    "orchestrator",
    "--listen",
    `0.0.0.0:${port}`,
    "--advertise",
    at,
    "--dir",
    join(directory, "o"),
    ...relay,
  );
  const pnodes = () => client.fleet.pnodes().catch(() => []);
  const join_ = (machine: Machine, ...words: string[]) =>
    machine.start("join", at, "--wait", "--name", machine.name, "--dir", join(directory, machine.name), ...words);

  const relays = new Map<string, ReturnType<Machine["start"]>>();
  for (let index = 0; index < volunteers; index++) {
    const machine = await houses.public(`relay-${index}`, `203.0.113.${8 + index}`);
    relays.set(machine.name, join_(machine, "--cpus", "1", "--listen", "0.0.0.0:0", "--relay"));
  }
  await until(
    "the relays are there",
    async () => (await pnodes()).filter(({ relaying }) => relaying).length === volunteers,
  );
  // They only relay.
  for (const { id } of await pnodes()) await client.members.drain(id);
  const machines = await Promise.all(homes.map((router, index) => houses.home(`home-${index}`, router)));
  for (const [index, machine] of machines.entries())
    join_(machine, "--cpus", "1", ...(websocket && homes[index] === "443 only" ? ["--websocket"] : []));
  await until("all homes were called back", async () => {
    const there = (await pnodes()).filter((pnode) => pnode.name.startsWith("home-"));
    return there.length === machines.length && there.every(({ reachable }) => reached.test(reachable));
  });

  stage("all homes were called back");
  await answered(() => subject.prepare(client));
  stage("the data is there");
  const ended = async (session: string) => {
    await until("the session ends", async () =>
      ["done", "failed"].includes((await answered(() => client.sessions.get(session))).status),
    );
    return answered(() => client.sessions.get(session));
  };
  const whole = await ended(await answered(() => subject.begin(client, 1)));
  assert.equal(whole.status, "done", whole.reason);
  const text = await subject.text?.(client, whole.id);
  stage("one machine has trained, and two have spoken");
  const parted = await answered(() => subject.begin(client, 2));
  await until("it trains", async () => (await answered(() => client.sessions.get(parted))).step > subject.middle);
  // On a busy machine a home may be taken for lost for a while.
  let owners = new Set<string>();
  await until("it trains in two homes", async () => {
    owners = new Set((await answered(() => client.fleet.vnodes(parted))).map((one) => one.pnode));
    const { status } = await answered(() => client.sessions.get(parted));
    return owners.size === 2 || ["done", "failed"].includes(status);
  });
  assert.equal(owners.size, 2, "it trains in two homes");
  stage("trains in two homes");
  const working = (await pnodes()).filter(({ id }) => owners.has(id)).map((pnode) => pnode.name);
  if (middle === "kill the relay") {
    const used = (await pnodes()).find((pnode) => (pnode.relaying?.connections ?? 0) > 0);
    assert.ok(used !== undefined, "a relay is in use");
    relays.get(used.name)?.kill("SIGKILL");
  }
  if (middle === "pull a cable") machines.find((machine) => machine.name === working[0])?.pullCable();
  const carried = async () => (await pnodes()).reduce((sum, { relaying }) => sum + Number(relaying?.bytes ?? 0), 0);
  const before = await carried();
  const { status, stepRoot, reason } = await ended(parted);
  const bytes = (await carried()) - before;
  stage(`ended: ${status}`);
  // The small network sends too little to tell.
  if (tensors !== undefined && subject.text !== undefined) {
    console.log(`measured: relays of volunteers carried ${(bytes / 1e6).toFixed(1)} MB after step ${subject.middle}`);
    assert.equal(bytes > littleBytes, tensors === "by relay", `relays carried ${bytes} bytes`);
  }
  assert.equal(status, "done", reason);
  assert.equal(stepRoot, whole.stepRoot, "the root is that of one machine");
  if (text !== undefined) assert.equal(await subject.text?.(client, parted), text, "the text is that of one machine");
}

const client = new Client(`127.0.0.1:${port}`, { fetch });
const directory = mkdtempSync(join(tmpdir(), "dcnr-homes-"));
const houses = new Houses();
const [, , caseName, subjectName] = process.argv;
const wanted = cases[caseName as CaseName] as Case | undefined;
const subject = subjects[subjectName as SubjectName] as Subject | undefined;
try {
  assert.ok(wanted !== undefined, `there is no case "${caseName}"`);
  assert.ok(subject !== undefined, `there is nothing to train called "${subjectName}"`);
  await main(wanted, subject);
  console.log("done");
} catch (error) {
  for (const { wallMs, kind, message } of await client.fleet
    .events(0n, { session: "", kindPrefix: "" })
    .catch(() => []))
    console.log(new Date(Number(wallMs)).toISOString().slice(11, 23), kind, message);
  throw error;
} finally {
  await client.close();
  houses.leave();
  rmSync(directory, { recursive: true, force: true });
}
