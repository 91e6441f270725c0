// A colour for each host: far from the others, remembered on this device, and never red, which means lost.

/** Any first few of them are far apart on the colour wheel; reds (0 to 60) are left out. */
const hues = [258, 150, 318, 88, 205, 345, 122, 288, 70, 178, 232, 105];
const tones = 3;
export const slots = hues.length * tones;
const storageKey = "dcnr-host-colours";
/** Hosts that left long ago are forgotten. */
const rememberedMax = 1_000;

export interface HostColour {
  readonly hue: number;
  /** 0, 1 or 2: plain, darker, darkest. */
  readonly tone: number;
}

const given = new Map<string, number>(remembered());
/** How many of the hosts that are here have each slot. */
const taken = new Map<number, number>();
const here = new Set<string>();

export function colourOf(host: string): HostColour {
  const slot = slotOf(host);
  return { hue: hues[slot % hues.length] as number, tone: Math.floor(slot / hues.length) % tones };
}

/** Called with all hosts of a frame, so that names and not arrival decide who gets what. */
export function giveColours(hosts: Iterable<string>): void {
  const fresh = Array.from(hosts).filter((host) => !here.has(host));
  // Those who have a colour keep it; the others take what is free then.
  for (const host of fresh) if (given.has(host)) slotOf(host);
  for (const host of fresh.sort()) slotOf(host);
  if (fresh.length > 0) remember();
}

function slotOf(host: string): number {
  const slot = given.get(host) ?? freeSlot();
  given.set(host, slot);
  if (host !== "" && !here.has(host)) {
    here.add(host);
    taken.set(slot, (taken.get(slot) ?? 0) + 1);
  }
  return slot;
}

/** The first that nobody has, else the one that fewest have. */
function freeSlot(): number {
  let best = 0;
  for (let slot = 0; slot < slots; slot += 1) if ((taken.get(slot) ?? 0) < (taken.get(best) ?? 0)) best = slot;
  return best;
}

function remembered(): [string, number][] {
  try {
    const entries: unknown = JSON.parse(localStorage.getItem(storageKey) ?? "[]");
    if (!Array.isArray(entries)) return [];
    return entries.filter(
      (one): one is [string, number] =>
        Array.isArray(one) && typeof one[0] === "string" && Number.isInteger(one[1]) && one[1] >= 0 && one[1] < slots,
    );
  } catch {
    return [];
  }
}

function remember(): void {
  try {
    localStorage.setItem(storageKey, JSON.stringify(Array.from(given).slice(-rememberedMax)));
  } catch {
    // Private windows keep nothing; colours last as long as the page.
  }
}

/** For a style set by script: the sheet turns it into a colour of the theme. */
export function hostStyle(host: string): Record<string, string> {
  const { hue, tone } = colourOf(host);
  return { "--host-hue": String(hue), "--host-tone": String(tone) };
}
