// Which network answers at an address. Whoever has its key from a person writes host:port#key and needs nothing here;
// whoever has not believes whoever answers first, says so, and remembers it: from then on nobody else is believed there, but
// whoever shows a newer key for which the known one has signed. Then that one is remembered, and the older one forgotten.

import { mkdir } from "node:fs/promises";
import { dirname } from "node:path";
import { DcnrError, fail } from "../../core/errors.ts";
import type { KeyId } from "../../core/ids.ts";
import { isKeyId } from "../../core/keys.ts";
import { sleep, type World } from "../../core/world.ts";
import { Tls } from "../../protocol/identity/tls.ts";
import { formatAddress, parseAddress, withKey } from "../../protocol/routes/address.ts";
import { readWhole, writeWhole } from "../../system/files/whole-file.ts";

export interface PinningOptions {
  /** Where keys are remembered, by address. */
  readonly path: string;
  readonly world: World;
  /** For the person who has to judge. */
  readonly say: (sentence: string) => void;
  /** How long somebody may take to answer for the first time. */
  readonly patienceMs: number;
  readonly signal: AbortSignal;
}

const pauseMs = 500;

/** Which network was met at a place before. */
export async function knownNetworks(path: string): Promise<(place: string) => KeyId | undefined> {
  const known = await read(path);
  return (place) => known.get(place);
}

/** For places whose network is known by other means than its answer. */
export async function rememberNetwork(path: string, place: string, key: KeyId): Promise<void> {
  const known = await read(path);
  if (known.get(place) === key) return;
  await write(path, known.set(place, key));
}

/** The same addresses with the network's key. All of them are of one network, so one that answers speaks for all. */
export async function pinned(addresses: readonly string[], options: PinningOptions): Promise<string[]> {
  const known = await read(options.path);
  const places = addresses.map((address) => {
    const { host, port, key } = parseAddress(address);
    const place = formatAddress(host, port);
    const named = key ?? known.get(place);
    return { host, port, place, key: named && (known.get(named) ?? named) };
  });
  const keys = new Set(places.flatMap(({ key }) => key ?? []));
  if (keys.size > 1) fail("invalid_argument", "these addresses belong to different networks: their keys differ");
  const key = [...keys][0] ?? (await meetFirst(places, options));
  const fresh = places.filter(({ place, key: named }) => named === undefined && known.get(place) === undefined);
  for (const { place } of fresh) known.set(place, key);
  if (fresh.length > 0) {
    await write(options.path, known);
    if (keys.size === 0)
      options.say(
        `${fresh[0]?.place} shows the key ${key}. This is the first time: it is believed and remembered in ${options.path}. ` +
          "Compare it with what the orchestrator printed, or join by ADDRESS#KEY",
      );
  }
  return places.map(({ place }) => withKey(place, key));
}

/** Remembers that a key was succeeded by another, wherever the older one was known. */
export async function rememberSuccession(path: string, former: KeyId, newest: KeyId): Promise<void> {
  const known = await read(path);
  for (const [where, key] of known) if (key === former) known.set(where, newest);
  await write(path, known.set(former, newest));
}

async function meetFirst(
  places: readonly { readonly host: string; readonly port: number; readonly place: string }[],
  { world, patienceMs, signal }: PinningOptions,
): Promise<KeyId> {
  const tls = new Tls();
  const untilMs = world.clock.monotonicMs() + patienceMs;
  for (;;) {
    const failures: unknown[] = [];
    for (const place of places)
      try {
        return await tls.meet(place, world.timers);
      } catch (error) {
        failures.push(error);
      }
    if (signal.aborted || world.clock.monotonicMs() >= untilMs) throw noneAnswered(places, failures);
    await sleep(world.timers, pauseMs, signal);
  }
}

/** All that were tried are named, whichever was the last. */
function noneAnswered(places: readonly { readonly place: string }[], failures: readonly unknown[]): DcnrError {
  const last = DcnrError.from(failures.at(-1), "unavailable");
  if (places.length === 1) return last;
  const tried = places.map(({ place }) => place).join(", ");
  const sentence = `none of these addresses answers: ${tried}. Check them, and that the processes run there`;
  return new DcnrError(last.code, sentence, { cause: last });
}

/** By address; and by an older key, which was succeeded by the one there. */
async function read(path: string): Promise<Map<string, KeyId>> {
  const found = await readWhole(path).catch((error: Error) =>
    fail("failed_precondition", `cannot read ${path}: ${error.message}`),
  );
  const text = found === undefined ? "{}" : new TextDecoder().decode(found);
  try {
    const entries = Object.entries(JSON.parse(text) as Record<string, string>);
    return new Map(entries.filter((entry): entry is [string, KeyId] => isKeyId(entry[1])));
  } catch {
    return fail("data_loss", `${path} is damaged: remove it, and compare keys once more`);
  }
}

async function write(path: string, known: ReadonlyMap<string, KeyId>): Promise<void> {
  await mkdir(dirname(path), { recursive: true });
  await writeWhole(path, `${JSON.stringify(Object.fromEntries(known), undefined, 2)}\n`);
}
