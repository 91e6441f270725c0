// What a program that nobody trusts may show on its owner's terminal: text, colours, and what the program's own screen is drawn with. All other
// control is left out: by some of it terminals are made to answer, as if somebody had typed there, or to change what is in the clipboard.

import { Transform } from "node:stream";
import { StringDecoder } from "node:string_decoder";

/** Colours, moves and erasures; the cursor and the second screen come and go. Behind these every control character but tabs and ends of lines. */
const control =
  // biome-ignore lint/suspicious/noControlCharactersInRegex: it is about these
  /(\x1b\[(?:[\d;]*[A-HJKm]|\?(?:25|1049)[hl]))|[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]/g;
/** The beginning of a sequence whose rest comes with the next piece. */
// biome-ignore lint/suspicious/noControlCharactersInRegex: as above
const begun = /\x1b(?:\[[\d;?]{0,16})?$/;

/** Of one stream, whose pieces end anywhere. */
export function terminalText(): Transform {
  const decoder = new StringDecoder("utf8");
  let held = "";
  const shown = (text: string) => text.replace(control, (_, allowed: string | undefined) => allowed ?? "");
  return new Transform({
    transform: (piece: Buffer, _encoding, done) => {
      const text = held + decoder.write(piece);
      held = begun.exec(text)?.[0] ?? "";
      done(null, shown(text.slice(0, text.length - held.length)));
    },
    flush: (done) => done(null, shown(held + decoder.end())),
  });
}
