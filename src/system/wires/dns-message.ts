// The few DNS messages that discovery on a local network needs (RFC 1035, RFC 6762): questions for services, and answers
// with a port and a text. What comes in is anybody's: every length is checked, and names may only point backwards.

export interface DnsQuestion {
  readonly name: string;
  readonly type: number;
}

export interface DnsRecord {
  readonly name: string;
  readonly type: number;
  readonly ttlSeconds: number;
  /** For PTR a name, for SRV the target. */
  readonly target?: string;
  readonly port?: number;
  /** For TXT. */
  readonly texts?: readonly string[];
}

export interface DnsMessage {
  readonly id: number;
  readonly isAnswer: boolean;
  readonly questions: readonly DnsQuestion[];
  readonly records: readonly DnsRecord[];
}

export const dnsTypes = { PTR: 12, TXT: 16, SRV: 33, ANY: 255 } as const;

/** A jumbo frame; more is not DNS on a local network. */
const messageBytesMax = 9_000;
const itemsMax = 64;
const nameBytesMax = 255;
const pointersMax = 16;
const classInternet = 1;
const classMask = 0x7fff;
const answerFlags = 0x8400;

class Damaged extends Error {}

class Cursor {
  readonly bytes: Uint8Array;
  at = 0;

  constructor(bytes: Uint8Array) {
    this.bytes = bytes;
  }

  byte(): number {
    const value = this.bytes[this.at++];
    if (value === undefined) throw new Damaged();
    return value;
  }

  short(): number {
    return (this.byte() << 8) | this.byte();
  }

  name(): string {
    const labels: string[] = [];
    let length = 0;
    let at = this.at;
    let end: number | undefined;
    for (let pointers = 0; ; ) {
      const size = this.bytes[at];
      if (size === undefined) throw new Damaged();
      if (size === 0) {
        this.at = end ?? at + 1;
        return labels.join(".");
      }
      if (size >= 0xc0) {
        const target = ((size & 0x3f) << 8) | (this.bytes[at + 1] ?? 0);
        if (target >= at || ++pointers > pointersMax) throw new Damaged();
        end ??= at + 2;
        at = target;
        continue;
      }
      length += size + 1;
      if (size > 63 || length > nameBytesMax || at + 1 + size > this.bytes.length) throw new Damaged();
      labels.push(Buffer.from(this.bytes.subarray(at + 1, at + 1 + size)).toString("utf8"));
      at += 1 + size;
    }
  }
}

/** Undefined for what is no such message. */
export function parseDns(bytes: Uint8Array): DnsMessage | undefined {
  if (bytes.length > messageBytesMax) return undefined;
  try {
    const cursor = new Cursor(bytes);
    const id = cursor.short();
    const flags = cursor.short();
    const [asked, answered, named, added] = [cursor.short(), cursor.short(), cursor.short(), cursor.short()];
    const count = (answered ?? 0) + (named ?? 0) + (added ?? 0);
    if ((asked ?? 0) + count > itemsMax) return undefined;
    const questions = Array.from({ length: asked ?? 0 }, () => questionAt(cursor));
    const records = Array.from({ length: count }, () => recordAt(cursor)).flatMap((record) => record ?? []);
    return { id, isAnswer: (flags & 0x8000) !== 0, questions, records };
  } catch (error) {
    if (error instanceof Damaged) return undefined;
    throw error;
  }
}

function questionAt(cursor: Cursor): DnsQuestion {
  const name = cursor.name().toLowerCase();
  const type = cursor.short();
  cursor.short();
  return { name, type };
}

/** Undefined for kinds that discovery does not use. */
function recordAt(cursor: Cursor): DnsRecord | undefined {
  const name = cursor.name().toLowerCase();
  const type = cursor.short();
  const isInternet = (cursor.short() & classMask) === classInternet;
  const ttlSeconds = cursor.short() * 65_536 + cursor.short();
  const length = cursor.short();
  const end = cursor.at + length;
  if (end > cursor.bytes.length) throw new Damaged();
  const record = isInternet ? contentAt(cursor, type, end, { name, type, ttlSeconds }) : undefined;
  cursor.at = end;
  return record;
}

function contentAt(cursor: Cursor, type: number, end: number, head: DnsRecord): DnsRecord | undefined {
  if (type === dnsTypes.PTR) return { ...head, target: cursor.name().toLowerCase() };
  if (type === dnsTypes.SRV) {
    cursor.at += 4;
    const port = cursor.short();
    return { ...head, port, target: cursor.name().toLowerCase() };
  }
  if (type !== dnsTypes.TXT) return undefined;
  const texts: string[] = [];
  while (cursor.at < end) {
    const size = cursor.byte();
    if (cursor.at + size > end) throw new Damaged();
    texts.push(Buffer.from(cursor.bytes.subarray(cursor.at, cursor.at + size)).toString("utf8"));
    cursor.at += size;
  }
  return { ...head, texts };
}

export function formatDns({ id, isAnswer, questions, records }: DnsMessage): Uint8Array {
  const parts: Uint8Array[] = [];
  const short = (...values: number[]) => {
    for (const value of values) parts.push(Uint8Array.of((value >>> 8) & 255, value & 255));
  };
  short(id, isAnswer ? answerFlags : 0, questions.length, records.length, 0, 0);
  for (const { name, type } of questions) {
    parts.push(nameBytes(name));
    short(type, classInternet);
  }
  for (const record of records) {
    parts.push(nameBytes(record.name));
    const content = contentBytes(record);
    short(record.type, classInternet, record.ttlSeconds >>> 16, record.ttlSeconds & 65_535, content.length);
    parts.push(content);
  }
  return Buffer.concat(parts);
}

function contentBytes({ target = "", port = 0, texts = [], type }: DnsRecord): Uint8Array {
  if (type === dnsTypes.TXT)
    return Buffer.concat(
      texts.map((text) => Buffer.concat([Uint8Array.of(Buffer.byteLength(text)), Buffer.from(text)])),
    );
  if (type === dnsTypes.SRV)
    return Buffer.concat([Uint8Array.of(0, 0, 0, 0, (port >>> 8) & 255, port & 255), nameBytes(target)]);
  return nameBytes(target);
}

/** Labels are at most 63 bytes long; longer ones are cut. */
function nameBytes(name: string): Uint8Array {
  const labels = name.split(".").filter((label) => label !== "");
  const bytes = labels.map((label) => {
    const content = Buffer.from(label).subarray(0, 63);
    return Buffer.concat([Uint8Array.of(content.length), content]);
  });
  return Buffer.concat([...bytes, Uint8Array.of(0)]);
}
