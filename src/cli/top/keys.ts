// Keys of a terminal as words. Terminals send letters as they are and other keys as escape sequences.

const sequences: Readonly<Record<string, string>> = {
  "\x1b[A": "up",
  "\x1bOA": "up",
  "\x1b[B": "down",
  "\x1bOB": "down",
  "\x1b[5~": "page up",
  "\x1b[6~": "page down",
  "\x1b[H": "home",
  "\x1b[F": "end",
  "\x1b": "escape",
  "\r": "enter",
  "\n": "enter",
  "\x7f": "backspace",
  "\b": "backspace",
  "\x03": "interrupt",
};

/** What was pressed, in order; unknown sequences are left out. */
export function keysOf(chunk: string): string[] {
  const keys: string[] = [];
  // biome-ignore lint/suspicious/noControlCharactersInRegex: keys are control characters
  for (const [pressed] of chunk.matchAll(/\x1b(?:\[[\d;]*[A-Za-z~]|O[A-Z])?|[^\x1b]/gu)) {
    const known = sequences[pressed];
    if (known !== undefined) keys.push(known);
    else if (pressed.length <= 2 && pressed >= " ") keys.push(pressed);
  }
  return keys;
}

/** Keys as they are pressed, until the returned function is called; nothing where the input is no terminal. */
export function listenForKeys(onKey: (key: string) => void): () => void {
  const { stdin } = process;
  if (stdin.isTTY !== true) return () => {};
  const hear = (chunk: string) => {
    for (const key of keysOf(chunk)) onKey(key);
  };
  stdin.setRawMode(true).setEncoding("utf8").on("data", hear).resume();
  return () => {
    stdin.off("data", hear).setRawMode(false).pause();
  };
}
