import assert from "node:assert/strict";
import { Readable } from "node:stream";
import { text } from "node:stream/consumers";
import { describe, it } from "node:test";
import { terminalText } from "./terminal-text.ts";

const shown = (...pieces: (string | Buffer)[]) =>
  text(Readable.from(pieces.map((piece) => Buffer.from(piece))).pipe(terminalText()));

describe("what passes to a terminal", () => {
  it("is text in any language, colours, and a screen", async () => {
    const screen =
      "\x1b[?1049h\x1b[?25l\x1b[H\x1b[1;32mPNode ahorn\x1b[0m läuft\t3 ℃\x1b[K\r\n\x1b[J\x1b[2K\x1b[1A\x1b[?25h\x1b[?1049l";
    assert.equal(await shown(screen), screen);
  });

  it("is nothing that terminals answer or obey otherwise", async () => {
    for (const [sent, left] of [
      ["where\x1b[6n are you", "where[6n are you"],
      ["\x1b]52;c;cm0gLXJmIH4K\x07", "]52;c;cm0gLXJmIH4K"],
      ["\x1b]0;title\x1b\\\x1b[21t", "]0;title\\[21t"],
      ['\x1bP$q"p\x1b\\', 'P$q"p\\'],
      [Buffer.from("9b366ec29b366e00057f", "hex"), "\u{fffd}6n6n"],
      ["\x1b[?1000h\x1b[>c\x1bc", "[?1000h[>cc"],
    ] as const)
      assert.equal(await shown(sent), left);
  });

  it("does not depend on where pieces end", async () => {
    const sent = Buffer.from("a\x1b[1;31mröt\x1b[0m\x1b[6n\x1b[?25l\x1b");
    const whole = await shown(sent);
    assert.equal(whole, "a\x1b[1;31mröt\x1b[0m[6n\x1b[?25l");
    for (let at = 0; at <= sent.length; at++)
      assert.equal(await shown(sent.subarray(0, at), sent.subarray(at)), whole, `cut at ${at}`);
  });

  it("does not wait for the end of a sequence that never ends", async () => {
    assert.equal(await shown(`\x1b[${"1".repeat(1_000)}`, "m"), `[${"1".repeat(1_000)}m`);
  });
});
