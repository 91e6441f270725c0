// What somebody can do who runs code of his own in the process that computes: started as `dcnr join` starts it, behind a real gate.

import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { existsSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { type AddressInfo, createServer } from "node:net";
import { tmpdir } from "node:os";
import { join, relative } from "node:path";
import { text } from "node:stream/consumers";
import { after, before, describe, it } from "node:test";
import { tryBoundary } from "../../src/cli/machine/apart/boundary.ts";
import { confinementFlags, filesOfNode, filesOfPNode } from "../../src/cli/machine/apart/confinement.ts";
import { packagePath } from "../../src/cli/machine/software.ts";
import { bytesOfText } from "../../src/core/bytes.ts";
import { successionStatement } from "../../src/core/keys.ts";
import { silentLog } from "../../src/core/world.ts";
import { Gate } from "../../src/protocol/gate/gate.ts";
import { GateDialing } from "../../src/protocol/gate/gate-dialing.ts";
import { KeyBook } from "../../src/protocol/identity/key-book.ts";
import { Reach } from "../../src/protocol/routes/reach.ts";
import { guestLimitsDefault } from "../../src/protocol/server/limits.ts";
import { loadKey } from "../../src/system/keys.ts";
import { backgroundTimers } from "../../src/system/timers.ts";
import { realWorld } from "../../src/system/world.ts";

const scratch = mkdtempSync(join(tmpdir(), "dcnr-gate-"));
const directory = join(scratch, "pnode");
mkdirSync(directory);
const key = join(directory, "key.pem");
const path = join(directory, "gate.sock");
const place = { path, token: "told to one process" };
writeFileSync(key, "", { mode: 0o600 });
const {
  isKept,
  hidesFiles,
  before: behind,
  text: why,
} = tryBoundary({ key, kept: [...filesOfPNode(directory), ...filesOfNode(packagePath("bin/dcnr.js"))] });
rmSync(key);
const letter = join(scratch, "letter.txt");
writeFileSync(letter, "dear owner");
let gate: Gate;
/** Something in the owner's network that takes connections. */
const neighbour = createServer((socket) => socket.destroy());

before(async () => {
  const identity = await loadKey(directory, realWorld({ logFormat: "none" }).chance);
  const dialing = new GateDialing({
    ...{ timers: backgroundTimers, identity, keys: new KeyBook(), web: false },
    reach: new Reach(["203.0.113.5:7700"]),
  });
  const options = { timers: backgroundTimers, log: silentLog, ...place, identity, dialing, listen: "127.0.0.1:0" };
  gate = new Gate({ ...options, limits: guestLimitsDefault, requests: {}, onGone: () => {} });
  await gate.open();
  await new Promise<void>((resolve) => neighbour.listen(0, "127.0.0.1", () => resolve()));
});

after(() => {
  gate.close();
  neighbour.close();
  rmSync(scratch, { recursive: true, force: true });
});

/** What the code prints that runs where VNodes do. */
async function inside(code: string, behindBoundary = isKept): Promise<string> {
  const script = join(directory, "taken-over.mjs");
  writeFileSync(script, code);
  const flags = confinementFlags({ directory, memoryBytes: 0 });
  const all = [...(behindBoundary ? behind : []), process.execPath, ...flags, script];
  const child = spawn(all[0] as string, all.slice(1), { stdio: ["ignore", "pipe", "pipe"] });
  const [out, errors] = await Promise.all([text(child.stdout), text(child.stderr)]);
  return out.trim() || errors;
}

const skip = !isKept && why;
const source = (file: string) => JSON.stringify(packagePath(file));

/** In a thread that inherits no restriction of Node's: what native code could do, too. */
const unbound = (code: string) =>
  `import { Worker } from "node:worker_threads"; new Worker(${JSON.stringify(code)}, { eval: true, execArgv: [] });`;

describe("code of somebody else in the process that computes", () => {
  it("finds no key, also where Node's restrictions do not hold", { skip }, async () => {
    const code = `console.log("read", require("node:fs").readFileSync(${JSON.stringify(key)}).length)`;
    assert.equal(await inside(unbound(code)), "read 0");
    const uncover = `require("node:child_process").spawnSync("umount", [${JSON.stringify(key)}]); ${code}`;
    assert.equal(await inside(unbound(uncover)), "read 0");
  });

  const skipFiles = !hidesFiles && why;

  it("finds no file of the owner's, by no way", { skip: skipFiles }, async () => {
    const read = (path: string) =>
      inside(
        unbound(
          `try { console.log(require("node:fs").readFileSync(${JSON.stringify(path)}, "utf8")) } catch (error) { console.log(error.code) }`,
        ),
      );
    assert.equal(await read(letter), "ENOENT");
    assert.equal(await read(`/proc/self/cwd/${relative(process.cwd(), letter)}`), "ENOENT");
    assert.equal(await read(`/proc/${process.pid}/root${letter}`), "EACCES");
    const uncover = `const { spawnSync } = require("node:child_process");
      const again = spawnSync("unshare", ["--user", "--map-root-user", "--mount", "--", "sh", "-c", "umount /tmp; mount --bind / /mnt; cat ${letter} /mnt${letter} ${key}"]);
      console.log("read", again.stdout.length)`;
    assert.equal(await inside(unbound(uncover)), "read 0");
  });

  it("changes nothing of its program, and leaves nothing for the owner to start", { skip: skipFiles }, async () => {
    const write = (path: string) =>
      inside(
        unbound(
          `try { require("node:fs").appendFileSync(${JSON.stringify(path)}, ""); console.log("written") } catch (error) { console.log(error.code) }`,
        ),
      );
    assert.equal(await write(packagePath("bin/dcnr.js")), "EROFS");
    assert.match(await write(process.execPath), /EROFS|ETXTBSY/);
    const left = join(scratch, "left-behind");
    await write(left);
    assert.ok(!existsSync(left));
  });

  it("is heard by no program of the owner's that waits at a socket", { skip: skipFiles }, async () => {
    const agent = createServer((socket) => socket.end("keys"));
    await new Promise<void>((resolve) => agent.listen(join(scratch, "agent.sock"), () => resolve()));
    const code = `require("node:net").connect(${JSON.stringify(join(scratch, "agent.sock"))}).on("connect", () => console.log("connected")).on("error", (error) => console.log(error.code))`;
    try {
      assert.equal(await inside(unbound(code)), "ENOENT");
      assert.equal(await inside(unbound(code), false), "connected", "without the boundary it would");
    } finally {
      agent.close();
    }
  });

  it("nor by one that waits where databases and containers have their sockets", { skip: skipFiles }, async () => {
    const folders = ["/var/lib", "/opt", "/dev/shm"].flatMap((folder) => {
      try {
        return [mkdtempSync(join(folder, "dcnr-gate-"))];
      } catch {
        return [];
      }
    });
    assert.notEqual(folders.length, 0);
    for (const folder of folders) {
      const service = createServer((socket) => socket.end("rows"));
      const socket = join(folder, "service.sock");
      await new Promise<void>((resolve) => service.listen(socket, () => resolve()));
      const code = `require("node:net").connect(${JSON.stringify(socket)}).on("connect", () => console.log("connected")).on("error", (error) => console.log(error.code))`;
      try {
        assert.equal(await inside(unbound(code)), "ENOENT", socket);
        assert.equal(await inside(unbound(code), false), "connected", "without the boundary it would");
      } finally {
        service.close();
        rmSync(folder, { recursive: true });
      }
    }
  });

  it("opens no terminal", { skip }, async () => {
    const code = `const { existsSync, readdirSync } = require("node:fs");
      console.log(existsSync("/dev/pts") ? readdirSync("/dev/pts").length : 0)`;
    assert.equal(await inside(unbound(code)), "0");
  });

  it("does not see into the gate's process", { skip }, async () => {
    const code = `try { require("node:fs").readFileSync("/proc/${process.pid}/environ"); console.log("read") } catch (error) { console.log(error.code) }`;
    assert.match(await inside(unbound(code)), /EACCES|EPERM/);
  });

  it("connects to nobody by itself", { skip }, async () => {
    const { port } = neighbour.address() as AddressInfo;
    const code = `require("node:net").connect(${port}, "127.0.0.1").on("connect", () => console.log("connected")).on("error", (error) => console.log(error.code))`;
    assert.match(await inside(unbound(code)), /^(ENETUNREACH|ECONNREFUSED|EADDRNOTAVAIL)$/);
    assert.equal(await inside(unbound(code), false), "connected", "without the boundary it would");
  });

  const ask = (asked: object) => `import { dialByGate } from ${source("src/protocol/gate/behind.ts")};
    const socket = dialByGate(${JSON.stringify(place)}, ${JSON.stringify(asked)});
    socket.on("connect", () => { console.log("connected"); process.exit() }).on("error", (error) => console.log(error.code));`;

  it("is not connected by the gate to what its owner did not name", async () => {
    const { port } = neighbour.address() as AddressInfo;
    const own = `127.0.0.1:${port}`;
    for (const asked of [
      { ask: "web", host: "127.0.0.1", port, tls: false },
      { ask: "web", host: "localhost", port, tls: false },
      { ask: "web", host: "169.254.169.254", port: 80, tls: false },
      { ask: "web", host: "203.0.113.5", port: 25, tls: false },
      { ask: "web", host: "203.0.113.5", port: 22, tls: true },
      { ask: "dial", address: `${own}#${"a".repeat(52)}` },
      { ask: "dial", address: own },
      { ask: "dial", address: "203.0.113.5:25" },
      { ask: "line", address: `ws://203.0.113.5:25#${"a".repeat(52)}` },
      { ask: "line", address: `203.0.113.5:22#${"a".repeat(52)}` },
    ])
      assert.equal(await inside(ask(asked)), "permission_denied", JSON.stringify(asked));
  });

  it("gets no signature but for what PNodes say every day", async () => {
    const signed = async (content: Uint8Array) =>
      inside(`import { askGate } from ${source("src/protocol/gate/behind.ts")};
        import { encodeRecord } from ${source("src/protocol/socket/records.ts")};
        const socket = askGate(${JSON.stringify(place)}, { ask: "sign" });
        socket.write(encodeRecord(Buffer.from("${Buffer.from(content).toString("hex")}", "hex")));
        socket.once("data", (answer) => { console.log(answer.readUInt32BE(0)); process.exit(); });`);
    assert.equal(await signed(bytesOfText("dcnr delivery 1\nsession")), "64");
    const tls = `${" ".repeat(64)}TLS 1.3, client CertificateVerify\0`;
    for (const content of [
      successionStatement("id" as never, new Uint8Array(44)),
      bytesOfText(tls),
      bytesOfText("dcnr seal 1 answers\n"),
      bytesOfText("dcnr member permit\n"),
      bytesOfText("dcnr charter 1\n"),
      new Uint8Array([0x30, 0x82]),
      new Uint8Array(1),
    ])
      assert.equal(await signed(content), "0", new TextDecoder().decode(content));
  });

  it("is nobody to the gate without the word that it was started with", async () => {
    const code = ask({ ask: "dial", address: "x" }).replaceAll(place.token, "guessed");
    assert.equal(await inside(code), "unauthenticated");
  });
});
