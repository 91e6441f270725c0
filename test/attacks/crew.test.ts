// Sessions that go on without orchestrators have a crew, and whoever joins an open network is soon of it: a spare. What it may
// say there it says of itself; it gets no VNode by it as long as the owner is there, and no blob of another session.

import assert from "node:assert/strict";
import { after, before, describe, it } from "node:test";
import { DcnrError } from "../../src/core/errors.ts";
import { sha256 } from "../../src/core/hash.ts";
import { sleep } from "../../src/core/world.ts";
import { SessionPeerService } from "../../src/protocol/gen/dcnr/v1/session_peers_pb.ts";
import type { Network } from "../../src/protocol/network.ts";
import { newIdentity } from "../../src/system/keys.ts";
import { Lab, refused } from "./lab.ts";

let lab: Lab;
let session = "";
let member: Network;
let heartbeat: (crews: object[]) => Promise<void>;
let beating: NodeJS.Timeout;
const mallory = newIdentity();

before(async () => {
  lab = await Lab.open({ pnodes: 2 });
  session = await lab.train({ autonomy: "on" });
  const { network, channel } = await lab.join(mallory);
  member = network;
  let sequence = 0n;
  heartbeat = (crews) =>
    channel.send({ event: { case: "heartbeat", value: { sequence: ++sequence, crews } as never } });
  beating = setInterval(() => void heartbeat([]).catch(() => {}), 300);
  const tell = (index: number) =>
    member.call(lab.pnodeAt(index), SessionPeerService.method.tell, { incarnation: "1", news: { session } }).then(
      () => true,
      () => false,
    );
  // The crew hears of its new spare with the next charter.
  while (!((await tell(0)) && (await tell(1)))) await sleep(lab.world.timers, 50);
});
after(() => {
  clearInterval(beating);
  return lab.close();
});

/** As mallory would tell it: all VNodes are hers. */
function takeovers(epochs: (epoch: number) => number, count = 1) {
  return lab.vnodes(session).map(({ vnode, epoch }) => ({
    ...{ vnode, epoch: BigInt(epochs(epoch)), count },
    owners: [{ pnode: mallory.id as string, incarnation: "1" }],
  }));
}

async function fetched(hash: string): Promise<number> {
  let bytes = 0;
  for await (const { data } of member.watch(lab.pnodeAt(0), SessionPeerService.method.fetch, { session, hash }))
    bytes += data.byteLength;
  return bytes;
}

describe("one of the crew", () => {
  it("takes no VNode from an owner that is there by telling orchestrators that it did", async () => {
    const owners = () => lab.vnodes(session).map(({ members }) => members.map(({ pnode }) => pnode));
    const honest = owners();
    const before = new Map(lab.vnodes(session).map(({ vnode, epoch }) => [vnode, epoch]));
    for (const epochs of [(epoch: number) => epoch, (epoch: number) => epoch + 9, () => 2 ** 40, () => 2 ** 63])
      for (const count of [1, 2 ** 32 - 1])
        await heartbeat([{ session, takeovers: takeovers(epochs, count), line: 2n ** 40n, turn: 9n }]);
    // An orchestrator that has just started waits for others to tell before it decides.
    const isDecided = () => lab.vnodes(session).every(({ vnode, epoch }) => epoch > (before.get(vnode) as number));
    await lab.until("what she told is decided", isDecided);
    const { line } = lab.session(session);
    await lab.until("the session gets on", () => lab.session(session).line > line + 20);
    assert.deepEqual(owners(), honest);
    for (const { epoch } of lab.vnodes(session)) assert.ok(epoch < 10_000, `epoch ${epoch}`);
  });

  it("takes none by telling the others, as long as an orchestrator is there", async () => {
    const records = lab.vnodes(session);
    const news = { session, turn: 0n, line: 0n, orchestratorAgeMs: -1, tenures: takeovers(() => 2 ** 40) };
    for (const index of [0, 1])
      for (const tenures of [news.tenures, takeovers((epoch) => epoch), takeovers((epoch) => epoch + 1, 0)]) {
        const told = { incarnation: "1", routes: "127.0.0.1:9", news: { ...news, tenures } };
        await member.call(lab.pnodeAt(index), SessionPeerService.method.tell, told);
      }
    await sleep(lab.world.timers, 500);
    await lab.nothingLost(session, records);
  });

  it("moves no line by telling the others, as long as an orchestrator is there, whoever is said to hold what", async () => {
    const records = lab.vnodes(session);
    const { line, turn = 0 } = lab.session(session);
    const [step, now] = [BigInt(line) + 1_000n, BigInt(turn)];
    const states = records.map(({ vnode }) => ({ vnode, step, state: sha256("hers"), trail: "" }));
    const holders = lab.keys.map(({ id }) => ({ pnode: id as string, sequence: 2n ** 52n, states }));
    // As if the others had started again, elsewhere.
    const elsewhere = { incarnation: "9", ageMs: 0, routes: "127.0.0.1:9" };
    const sightings = lab.keys.map(({ id }) => ({ pnode: id as string, ...elsewhere }));
    const lies = [
      { line: step, turn: now, holders },
      { line: step, turn: now, holders: [{ pnode: mallory.id as string, sequence: 1n, states }] },
      { line: 2n ** 40n, turn: now },
      { line: 2n ** 41n, turn: now },
    ];
    for (const lie of [...lies, { line: 2n ** 40n, turn: now + 1n }, { line: 0n, turn: 2n ** 40n }])
      for (const index of [0, 1]) {
        const news = { session, orchestratorAgeMs: -1, sightings, ...lie };
        await member.call(lab.pnodeAt(index), SessionPeerService.method.tell, { incarnation: "1", routes: "", news });
        await lab.nothingLost(session, records);
      }
  });

  it("does not count twice by telling twice what it holds", async () => {
    const records = lab.vnodes(session);
    const { line, turn = 0 } = lab.session(session);
    const step = BigInt(line) + 1_000n;
    const states = records.map(({ vnode }) => ({ vnode, step, state: sha256("hers"), trail: "" }));
    const holders = [{ pnode: mallory.id as string, sequence: 2n ** 40n, states: [...states, ...states] }];
    const news = { session, orchestratorAgeMs: -1, line: step, turn: BigInt(turn), holders };
    for (const index of [0, 1])
      await refused(
        member.call(lab.pnodeAt(index), SessionPeerService.method.tell, { incarnation: "1", routes: "", news }),
        "invalid_argument",
        /twice/,
      );
    await lab.nothingLost(session, records);
  });

  it("makes nobody count its own lists so high that others do not take them any more", async () => {
    const records = lab.vnodes(session);
    const highest = BigInt(Number.MAX_SAFE_INTEGER) - 3n;
    for (const [index, { id }] of lab.keys.entries()) {
      const news = { session, orchestratorAgeMs: -1, known: [{ pnode: id as string, sequence: highest }] };
      const told = { incarnation: "1", routes: "", news };
      await member.call(lab.pnodeAt(index), SessionPeerService.method.tell, told);
    }
    await lab.nothingLost(session, records);
    const told = await member.call(lab.pnodeAt(0), SessionPeerService.method.tell, {
      ...{ incarnation: "1", routes: "" },
      news: { session, orchestratorAgeMs: -1 },
    });
    const own = told.news?.holders.find(({ pnode }) => pnode === (lab.keys[0]?.id as string));
    assert.ok(own && own.sequence < highest / 2n, `its list has the number ${own?.sequence}`);
  });

  it("has no disk filled: it may ask to keep neither what it does not own nor what no step has", async () => {
    const records = lab.vnodes(session);
    const { line } = lab.session(session);
    for (const { vnode } of records)
      for (const step of [BigInt(line) + 1_000n, 2n ** 53n + 2n, 2n ** 64n - 1n]) {
        const wanted = { session, vnode, step, state: sha256("hers"), trail: "" };
        const asked = member.call(lab.pnodeAt(0), SessionPeerService.method.keep, wanted);
        const failure = await asked.then(() => undefined, DcnrError.from);
        assert.ok(failure && ["permission_denied", "invalid_argument"].includes(failure.code), failure?.message);
      }
    await lab.nothingLost(session, records);
  });

  it("has no state thrown away that is held, by asking to keep another in its place", async () => {
    const records = lab.vnodes(session);
    const keep = (index: number, vnode: string, step: number, state: string) =>
      member.call(lab.pnodeAt(index), SessionPeerService.method.keep, { session, vnode, step: BigInt(step), state });
    // The session goes on meanwhile: what is asked for may lie below the line already.
    let refusals = 0;
    for (let round = 0; refusals === 0 && round < 200; round++)
      for (const { vnode, durable } of lab.vnodes(session))
        for (const index of [0, 1]) {
          const [step, { hash }] = Object.entries(durable).at(-1) as [string, { hash: string }];
          const other = await keep(index, vnode, Number(step), sha256(`another ${hash}`)).catch(DcnrError.from);
          assert.ok(other instanceof DcnrError, "there is no such state anywhere");
          if (/another state of VNode .* is held here/.test(other.message)) refusals++;
        }
    assert.ok(refusals > 0);
    await lab.nothingLost(session, records);
  });

  it("reads the session's data, and nothing that the machine has for other sessions", async () => {
    const { dataset } = lab.session(session).identity;
    assert.ok((await fetched(dataset)) > 0);
    const foreign = Buffer.from("a shard of somebody else's dataset");
    lab.caches[0]?.set(sha256(foreign), foreign);
    await refused(fetched(sha256(foreign)), "not_found", /of session .* is not here/);
  });

  it("brings no charter to a machine that hears an orchestrator, whoever signed it", async () => {
    const own = { charter: new Uint8Array(3), publicKey: mallory.publicKey, former: [], signature: new Uint8Array(64) };
    const enlist = (charter: object) => member.call(lab.pnodeAt(0), SessionPeerService.method.enlist, { charter });
    await refused(enlist(own), "failed_precondition", /from its orchestrator/);
    await refused(
      lab.as(newIdentity()).call(lab.pnodeAt(0), SessionPeerService.method.describe, { session }),
      "permission_denied",
    );
  });

  it("is nobody to a machine that is not of the crew, whatever session it names", async () => {
    const stranger = lab.as(newIdentity());
    const tell = { incarnation: "1", routes: "", news: { session } };
    await refused(stranger.call(lab.pnodeAt(0), SessionPeerService.method.tell, tell), "permission_denied");
    const other = { incarnation: "1", routes: "", news: { session: "another" } };
    await refused(member.call(lab.pnodeAt(0), SessionPeerService.method.tell, other), "not_found", /not of the crew/);
  });
});
