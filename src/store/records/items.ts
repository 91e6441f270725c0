// What every backend agrees on about keys, values and pages, so that none accepts what another refuses
// and all of them sort alike.

import { fail } from "../../core/errors.ts";
import { keyBytesMax, type ListPage, listLimitDefault, type StoredItem, valueBytesMax } from "./state-store.ts";

/** Sorts after everything that a key may contain, so `prefix + keyEnd` bounds the keys under a prefix. */
export const keyEnd = "\u{10FFFF}";

/** A page ends at this many bytes of values, as DynamoDB's does; it keeps a list of large values out of memory. */
export const pageBytesMax = 1 << 20;

export function checkKey(key: string): void {
  if (key.length === 0) fail("invalid_argument", "a store key is empty: give it a name");
  checkText(key, `store key ${JSON.stringify(key.slice(0, 80))}`);
  if (key.includes(keyEnd))
    fail("invalid_argument", `store key ${JSON.stringify(key.slice(0, 80))} contains U+10FFFF, which ends ranges`);
  const bytes = Buffer.byteLength(key);
  if (bytes > keyBytesMax)
    fail("invalid_argument", `store key "${key.slice(0, 80)}…" has ${bytes} bytes, at most ${keyBytesMax} are allowed`);
}

export function checkValue(key: string, value: string): void {
  checkText(value, `the value of store key "${key}"`);
  const bytes = Buffer.byteLength(value);
  if (bytes > valueBytesMax)
    fail(
      "invalid_argument",
      `the value of store key "${key}" has ${bytes} bytes, at most ${valueBytesMax} are allowed: put large content into a blob`,
    );
}

export function checkVersion(key: string, expected: number): void {
  if (!Number.isSafeInteger(expected) || expected < 0)
    fail("invalid_argument", `the expected version ${expected} of store key "${key}" is not a whole number from 0 on`);
}

/** Half a surrogate pair has no UTF-8, and PostgreSQL takes no NUL: both would come back changed. */
function checkText(text: string, what: string): void {
  if (!text.isWellFormed()) fail("invalid_argument", `${what} contains half a surrogate pair, which has no UTF-8 form`);
  if (text.includes("\0")) fail("invalid_argument", `${what} contains a NUL character, which not every store can keep`);
}

export interface ListRange {
  readonly prefix: string;
  readonly after: string | undefined;
  readonly limit: number;
}

export function listRange(prefix: string, options: { after?: string; limit?: number } = {}): ListRange {
  if (prefix !== "") checkKey(prefix);
  if (options.after !== undefined) checkKey(options.after);
  const limit = options.limit ?? listLimitDefault;
  if (!Number.isSafeInteger(limit) || limit < 1)
    fail("invalid_argument", `a list limit of ${options.limit} is not a whole number from 1 on`);
  return { prefix, after: options.after, limit: Math.min(limit, listLimitDefault) };
}

/** Takes items in key order until the page is full; one item more than fits tells that there is a next page. */
export class PageBuilder {
  readonly #items: StoredItem[] = [];
  readonly #limit: number;
  #bytes = 0;
  #more = false;

  constructor(limit: number) {
    this.#limit = limit;
  }

  /** False once the page is full: the item was not taken. */
  add(item: StoredItem): boolean {
    if (this.#items.length >= this.#limit || this.#bytes >= pageBytesMax) this.#more = true;
    else {
      this.#items.push(item);
      this.#bytes += item.value.length;
    }
    return !this.#more;
  }

  page(): ListPage {
    const next = this.#items.at(-1)?.key;
    return this.#more && next !== undefined ? { items: this.#items, next } : { items: this.#items };
  }
}

/** Byte order of the UTF-8 forms. It differs from `<` only where a surrogate pair meets U+E000 to U+FFFF. */
export function compareKeys(a: string, b: string): number {
  const length = Math.min(a.length, b.length);
  for (let i = 0; i < length; i++) {
    const left = a.charCodeAt(i);
    const right = b.charCodeAt(i);
    if (left !== right) return aboveSurrogates(left) - aboveSurrogates(right);
  }
  return a.length - b.length;
}

/** Moves surrogates (which stand for U+10000 and more) above the rest of the 16-bit range. */
function aboveSurrogates(unit: number): number {
  return unit >= 0xd800 && unit <= 0xdfff ? unit + 0x10000 : unit;
}
