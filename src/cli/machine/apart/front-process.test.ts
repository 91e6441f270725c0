import assert from "node:assert/strict";
import { type ChildProcess, spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { text } from "node:stream/consumers";
import { describe, it } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import { fileURLToPath } from "node:url";

const front = fileURLToPath(new URL("./front-process.ts", import.meta.url));
const adopt = `const { adoptTerminal } = await import(${JSON.stringify(new URL("./far-terminal.ts", import.meta.url).href)}); adoptTerminal(process.env);`;
const running = (code: string) => [process.execPath, "--input-type=module", "-e", code];
const behind = (code: string) => [process.execPath, front, ...running(code)];
const start = ([program = "", ...words]: string[]) => spawn(program, words, { stdio: ["ignore", "pipe", "inherit"] });

const skip = process.platform === "win32" && "Windows has no such process";

describe("what stands before a PNode's process", { skip }, () => {
  it("ends as it has ended", async () => {
    const ended = async (code: string) => once(start(behind(code)), "exit");
    assert.deepEqual(await ended("process.exit(7)"), [7, null]);
    assert.deepEqual(await ended("process.kill(process.pid, 'SIGKILL')"), [null, "SIGKILL"]);
  });

  it("shows all that it has said, and takes signals for its affair", async () => {
    const child = start(
      behind(`setInterval(() => {}, 1000);
        process.on("SIGTERM", () => { process.stdout.write("x".repeat(1e6)); process.exitCode = 3; setTimeout(() => process.exit(), 0) });
        console.log("ready");`),
    );
    child.stdout.once("data", () => child.kill("SIGTERM"));
    const [said, [code]] = await Promise.all([text(child.stdout), once(child, "exit")]);
    assert.ok(said.startsWith("ready\n"));
    assert.equal(code, 3);
  });

  it("does not leave it alone when it is killed", async () => {
    const child = start(behind(`${adopt} console.log(process.pid); setInterval(() => {}, 1000)`));
    const [said] = await once(child.stdout, "data");
    child.kill("SIGKILL");
    await once(child, "exit");
    for (let tries = 0; lives(Number(said)); tries++) {
      assert.ok(tries < 400, "it outlives its front");
      await sleep(20);
    }
  });

  it("has it leave when nobody reads what it says", async () => {
    const child = start(
      behind(`process.on("SIGTERM", () => process.exit(5)); setInterval(() => console.log("more"), 5)`),
    );
    await once(child.stdout, "data");
    child.stdout.destroy();
    const [code] = await once(child, "exit");
    assert.equal(code, 5);
  });

  const quoted = (words: readonly string[]) => words.map((word) => `'${word.replaceAll("'", `'\\''`)}'`).join(" ");
  /** On a terminal of its own, as a person has it. */
  const onTerminal = (words: readonly string[]): ChildProcess & { stdin: NodeJS.WritableStream } =>
    spawn("script", ["-qec", `stty cols 61 rows 17; ${quoted(words)}`, "/dev/null"], {
      stdio: ["pipe", "pipe", "inherit"],
    });
  const skipTerminal =
    spawnSync("script", ["-qec", "true", "/dev/null"]).status !== 0 && "there is no program that makes a terminal";

  it("keeps the terminal from it, which shows as much as ever", { skip: skipTerminal }, async () => {
    const look = `const { openSync } = await import("node:fs"); const { isatty } = await import("node:tty");
      let terminal = "opened"; try { openSync("/dev/tty") } catch (error) { terminal = error.code }
      const has = [0, 1, 2].map(isatty); ${adopt}
      const { columns, rows, isTTY } = process.stdout;
      console.log(JSON.stringify({ terminal, has, columns, rows, isTTY, keys: process.stdin.isTTY }));`;
    const seen = async (words: readonly string[]) => {
      const child = onTerminal(words);
      return JSON.parse(await text(child.stdout as NodeJS.ReadableStream));
    };
    const size = { columns: 61, rows: 17, isTTY: true };
    assert.deepEqual(await seen(behind(look)), { terminal: "ENXIO", has: [false, false, false], ...size, keys: true });
    const alone = await seen(running(look));
    assert.deepEqual([alone.terminal, alone.has], ["opened", [true, true, true]], "without it, it has all of that");
  });

  it("gives it keys while it wants them", { skip: skipTerminal }, async () => {
    const code = `${adopt} process.stdin.setRawMode(true).setEncoding("utf8").on("data", (keys) => {
      process.stderr.write("<" + keys + ">"); process.stdin.setRawMode(false); process.exit(9) });
      console.log("listens")`;
    const child = onTerminal(behind(code));
    let said = "";
    child.stdout?.setEncoding("utf8").on("data", (piece: string) => {
      if (!said.includes("listens") && (said + piece).includes("listens")) child.stdin.write("p");
      said += piece;
    });
    const [exit] = await once(child, "exit");
    assert.match(said, /listens\r\n(p)?<p>/);
    assert.equal(exit, 9);
  });
});

function lives(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch {
    return false;
  }
}
