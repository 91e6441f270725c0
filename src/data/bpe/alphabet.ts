// The byte alphabet of byte-level BPE: each of the 256 bytes has a printable character, so that vocabularies
// can be written as text. The assignment is the one that GPT-2 introduced and everyone reads.

const characterOfByte: string[] = [];
const byteOfCharacter = new Map<string, number>();

function isPlain(byte: number): boolean {
  return (byte >= 0x21 && byte <= 0x7e) || (byte >= 0xa1 && byte <= 0xac) || byte >= 0xae;
}

let spare = 256;
for (let byte = 0; byte < 256; byte++) {
  const character = String.fromCharCode(isPlain(byte) ? byte : spare++);
  characterOfByte.push(character);
  byteOfCharacter.set(character, byte);
}

export function byteCharacter(byte: number): string {
  return characterOfByte[byte] as string;
}

/** Bytes as text in the alphabet. */
export function spellBytes(bytes: Uint8Array): string {
  let text = "";
  for (const byte of bytes) text += characterOfByte[byte];
  return text;
}

/** The bytes that a token of the alphabet stands for; undefined if it has a character that is not of it. */
export function bytesOfSpelling(token: string): Uint8Array | undefined {
  const bytes = new Uint8Array(token.length);
  for (let i = 0; i < token.length; i++) {
    const byte = byteOfCharacter.get(token[i] as string);
    if (byte === undefined) return undefined;
    bytes[i] = byte;
  }
  return bytes;
}
