// A colour for each host: distinguishable, the same on every page that sees the same hosts, and never red, which means lost.

/** Neighbouring slots are far apart on the colour wheel; reds (0 to 60) are left out. */
const hues = [258, 150, 318, 88, 205, 345, 122, 288, 70, 178, 232, 105];
const tones = 3;
export const slots = hues.length * tones;

export interface HostColour {
  readonly hue: number;
  /** 0, 1 or 2: plain, lighter, darker. */
  readonly tone: number;
}

const given = new Map<string, number>();

/** Hosts keep what they got; new ones take the free slot that their name points at. */
export function colourOf(host: string): HostColour {
  let slot = given.get(host);
  if (slot === undefined) {
    slot = freeSlot(host);
    given.set(host, slot);
  }
  return { hue: hues[slot % hues.length] as number, tone: Math.floor(slot / hues.length) % tones };
}

/** Called with all hosts of a frame, so that names and not arrival decide. */
export function giveColours(hosts: Iterable<string>): void {
  const fresh = Array.from(hosts).filter((host) => !given.has(host));
  for (const host of fresh.sort()) colourOf(host);
}

function freeSlot(host: string): number {
  const used = new Set(given.values());
  const start = hash(host) % hues.length;
  for (let tone = 0; tone < tones; tone += 1)
    for (let offset = 0; offset < hues.length; offset += 1) {
      const slot = tone * hues.length + ((start + offset) % hues.length);
      if (!used.has(slot)) return slot;
    }
  return hash(host) % slots;
}

function hash(text: string): number {
  let value = 2166136261;
  for (let index = 0; index < text.length; index += 1) value = Math.imul(value ^ text.charCodeAt(index), 16777619);
  return value >>> 0;
}

/** For a style attribute set by script: the sheet turns it into a colour of the theme. */
export function hostStyle(host: string): Record<string, string> {
  const { hue, tone } = colourOf(host);
  return { "--host-hue": String(hue), "--host-tone": String(tone) };
}
