// Tables that are asked for words from outside: files, messages, people. A plain object also answers to what every object has, such as
// "constructor", with something that no table says.

export function entryOf<Entry>(table: Readonly<Record<string, Entry>>, word: string): Entry | undefined {
  return Object.hasOwn(table, word) ? table[word] : undefined;
}

/** Words that plain objects answer to by themselves: records that are kept by name could not tell them from entries. */
export function isObjectsOwn(word: string): boolean {
  return word in {};
}
