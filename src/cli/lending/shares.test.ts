import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, it } from "node:test";
import { LentHere } from "./lent-here.ts";
import { MemoryShare } from "./memory-share.ts";
import { checkShare, type Lender, lendableBytes, sharedText } from "./shares.ts";

const gib = 2 ** 30;
const machineBytes = 16 * gib;

function lender(name: string, change: Partial<Lender> = {}): Lender {
  return { name, pid: 7, wantsBytes: 0, heldBytes: 0, lendsBytes: 0, ...change };
}

describe("memory that PNodes of one machine share", () => {
  it("is never lent twice, whoever comes, goes and works, and everybody comes to what is fair", () => {
    // A generator too simple to be wrong: the order of events matters, not its quality.
    let seed = 1;
    const drawn = (below: number) => {
      seed = (seed * 48_271) % 2_147_483_647;
      return seed % below;
    };
    let all: Lender[] = [];
    const look = (index: number) => {
      const own = all[index] as Lender;
      const others = all.filter((_, at) => at !== index);
      all[index] = { ...own, lendsBytes: lendableBytes(own, others, machineBytes) };
    };
    for (let event = 0; event < 3_000; event++) {
      const which = drawn(4);
      const index = drawn(Math.max(1, all.length));
      if (which === 0 && all.length < 6) {
        const newcomer = lender(`p${event}`, { wantsBytes: drawn(3) === 0 ? (1 + drawn(6)) * gib : 0 });
        try {
          checkShare(newcomer, all, machineBytes);
          all.push(newcomer);
        } catch {}
      } else if (which === 1 && all.length > 2) all = all.filter((_, at) => at !== index);
      else if (which === 2 && all[index]) {
        const { lendsBytes } = all[index];
        all[index] = { ...all[index], heldBytes: drawn(2) === 0 ? 0 : Math.floor((lendsBytes * drawn(100)) / 100) };
      } else if (all[index]) look(index);
      const sum = all.reduce((total, { lendsBytes }) => total + lendsBytes, 0);
      assert.ok(sum <= machineBytes, `event ${event}: ${sum}`);
      for (const { heldBytes, lendsBytes } of all) assert.ok(heldBytes <= lendsBytes, "what is held is lent");
    }
    all = [lender("a"), lender("b", { wantsBytes: 4 * gib }), lender("c")];
    for (let turn = 0; turn < 9; turn++) look(turn % 3);
    assert.deepEqual(
      all.map(({ lendsBytes }) => lendsBytes / gib),
      [6, 4, 6],
    );
  });

  it("is refused in a sentence where others were told to lend it", () => {
    const others = [lender("birch", { wantsBytes: 12 * gib, lendsBytes: 12 * gib, pid: 4711 })];
    checkShare({ wantsBytes: 4 * gib }, others, machineBytes);
    checkShare({ wantsBytes: 0 }, others, machineBytes);
    assert.throws(
      () => checkShare({ wantsBytes: 5 * gib }, others, machineBytes),
      /--memory 5.0 GiB is more than is left: birch \(process 4711\) lends 12.0 GiB of this machine's 16.0 GiB. Lend 4.0 GiB or less/,
    );
    const all = [lender("birch", { wantsBytes: machineBytes, lendsBytes: machineBytes })];
    assert.throws(
      () => checkShare({ wantsBytes: 0 }, all, machineBytes),
      /no memory of this machine is left to lend: birch/,
    );
    assert.match(sharedText(others, machineBytes), /^shared: birch \(process 4711\) lends 12.0 GiB of/);
    const several = ["a", "b", "c", "d"].map((name) => lender(name, { wantsBytes: gib, lendsBytes: gib }));
    assert.equal(sharedText(several, machineBytes), "shared: 4 other PNodes lend 4.0 GiB of this machine's 16.0 GiB");
    assert.equal(sharedText([], machineBytes), "");
  });
});

async function inFolder(use: (folder: string) => Promise<void>): Promise<void> {
  const folder = await mkdtemp(join(tmpdir(), "dcnr-shares-"));
  await use(folder).finally(() => rm(folder, { recursive: true }));
}

/** Another process that lends as much as there is, until it is killed. */
async function otherProcess(folder: string, wantsBytes: number) {
  const own = { directory: "/other", name: "birch", wantsBytes };
  const script = `
    const { LentHere } = await import(${JSON.stringify(new URL("./lent-here.ts", import.meta.url).href)});
    const here = LentHere.open(${JSON.stringify(folder)}, ${machineBytes});
    const own = ${JSON.stringify(own)};
    console.log(here.enter(own));
    setInterval(() => here.share(own, 0), 50);`;
  const child = spawn(process.execPath, ["--input-type=module", "-e", script], {
    stdio: ["ignore", "pipe", "inherit"],
  });
  await once(child.stdout, "data");
  return child;
}

const world = {
  log: () => {},
  timers: { after: (ms: number, run: () => void) => clearTimeout.bind(null, setTimeout(run, ms)) as () => void },
};

describe("PNodes in processes of their own", () => {
  it("give way to each other, and what one that was killed had lent is free", () =>
    inFolder(async (folder) => {
      const other = await otherProcess(folder, 0);
      const share = await MemoryShare.enter(
        { directory: "/own", name: "own", wantsBytes: 0 },
        machineBytes,
        world,
        folder,
      );
      assert.equal(share.bytes, 8 * gib, "the other one gave way");
      assert.match(share.text, /^shared: birch \(process \d+\) lends 8.0 GiB of this machine's 16.0 GiB$/);
      const ended = once(other, "exit");
      other.kill("SIGKILL");
      await ended;
      let lent = 0;
      share.look({
        shareMemory: (lendable) => {
          lent = lendable(0);
        },
      });
      assert.equal(lent, machineBytes);
      assert.equal(share.text, "");
      share.leave();
    }));

  it("keep what their owners said", () =>
    inFolder(async (folder) => {
      const other = await otherProcess(folder, 12 * gib);
      const enter = (wantsBytes: number) =>
        MemoryShare.enter({ directory: "/own", name: "own", wantsBytes }, machineBytes, world, folder);
      await assert.rejects(enter(8 * gib), /--memory 8.0 GiB is more than is left: birch/);
      const share = await enter(0);
      assert.equal(share.bytes, 4 * gib);
      share.leave();
      other.kill("SIGKILL");
    }));

  it("that start together have equal parts at once, and leave them when they do not come", () =>
    inFolder(async (folder) => {
      const here = LentHere.open(folder, machineBytes);
      const members = ["a", "b", "c", "d"].map((name) => ({ name, directory: `/${name}` }));
      assert.equal(here.reserve(members), 4 * gib);
      assert.equal(here.enter({ ...(members[0] as (typeof members)[0]), wantsBytes: 0 }), 4 * gib);
      here.leave(["/b", "/c", "/d"]);
      assert.deepEqual(here.others("/a"), []);
      here.close();
    }));

  it("lend what they were told where nobody can be asked", async () => {
    const said: string[] = [];
    const log = (_: string, sentence: string) => void said.push(sentence);
    const own = { directory: "/own", name: "own", wantsBytes: gib };
    const share = await MemoryShare.enter(own, machineBytes, { ...world, log }, "/dev/null/nowhere");
    assert.equal(share.bytes, gib);
    assert.match(said.join(), /what other PNodes lend of this machine's memory is not known/);
    share.leave();
  });
});
