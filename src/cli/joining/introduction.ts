// Whom a machine that wants to join has been sent to: an orchestrator, or any other member, which then says where
// orchestrators are. Its word alone is worth nothing: what it hands on is signed with the network's key.

import { fail, hasCode } from "../../core/errors.ts";
import type { KeyId } from "../../core/ids.ts";
import { keyIdOf, shortKeyId } from "../../core/keys.ts";
import { retry } from "../../core/retry.ts";
import { plural } from "../../core/words/plural.ts";
import type { World } from "../../core/world.ts";
import { NetworkKey, shownFromWire } from "../../membership/network-key.ts";
import { judge } from "../../membership/records.ts";
import { GossipService, type IntroduceResponse } from "../../protocol/gen/dcnr/v1/gossip_pb.ts";
import { Tls } from "../../protocol/identity/tls.ts";
import type { Network } from "../../protocol/network.ts";
import { formatAddress, parseAddress, withKey } from "../../protocol/routes/address.ts";
import { verifySignature } from "../../system/keys.ts";
import { knownNetworks, rememberNetwork } from "./known-networks.ts";

interface Introducing {
  readonly network: Pick<Network, "call">;
  readonly world: World;
  /** Which network was met at a place before. */
  readonly known: (place: string) => KeyId | undefined;
}

interface Introduced {
  /** Of orchestrators, as given or as a member said; with the network's key where that is known. */
  readonly addresses: string[];
  /** The place of the member that introduced, and which network it is of. */
  readonly by?: { readonly place: string; readonly key: KeyId };
}

const timeoutMs = 5_000;
const pauses = { minMs: 200, maxMs: 5_000 };

/** The orchestrators behind the addresses that a person gave, which may be those of any members of one network. */
export async function orchestratorsAt(
  addresses: readonly string[],
  { path, network, world, say, patienceMs, signal }: OrchestratorsAt,
): Promise<string[]> {
  const known = await knownNetworks(path);
  const found = new Set<string>();
  for (const address of addresses) {
    const { addresses: orchestrators, by } = await retry({ world, ...pauses, patienceMs, signal }, () =>
      introducedBy(address, { network, world, known }),
    );
    for (const one of orchestrators) found.add(one);
    if (by === undefined) continue;
    say(
      `${by.place} is a member of the network ${shortKeyId(by.key)} and names ${plural(orchestrators.length, "orchestrator")}`,
    );
    // After a restart it is known whom to look for, also while this place is away.
    await rememberNetwork(path, by.place, by.key);
  }
  return [...found];
}

export interface OrchestratorsAt {
  /** Where keys are remembered, by address. */
  readonly path: string;
  readonly network: Pick<Network, "call">;
  readonly world: World;
  readonly say: (sentence: string) => void;
  /** How long members are asked again that are slow, or know no orchestrator for now. */
  readonly patienceMs: number;
  readonly signal: AbortSignal;
}

/** Addresses of orchestrators for one that was given. Fails if whoever answers is of another network than the one named. */
async function introducedBy(address: string, { network, world, known }: Introducing): Promise<Introduced> {
  const { host, port, key: named } = parseAddress(address);
  const place = formatAddress(host, port);
  const expected = named ?? known(place);
  // Who is away for now may be waited for, or another member remembers where to go.
  const shown = await new Tls().meet({ host, port }, world.timers).catch(() => undefined);
  if (shown === undefined || shown === expected) return { addresses: [address] };
  const answer = await network
    .call(withKey(place, shown), GossipService.method.introduce, {}, { timeoutMs })
    .catch((error: unknown) => {
      if (hasCode(error, "unimplemented")) return undefined;
      throw error;
    });
  const met = answer && networkOf(answer, world);
  const key = met?.keys.at(-1);
  if (expected !== undefined && !met?.keys.includes(expected))
    fail(
      "unauthenticated",
      `${place} is not of the network ${shortKeyId(expected)}: it shows the key ${shortKeyId(shown)}${key ? ` and is of ${shortKeyId(key)}` : ""}`,
    );
  if (answer === undefined || met === undefined || key === undefined || met.keys.includes(shown))
    return { addresses: [address] };
  const addresses = orchestratorsIn(answer, met);
  if (addresses.length === 0)
    fail(
      "unavailable",
      `${place} is a member of ${shortKeyId(key)}, but knows no orchestrator that is there: try again later`,
    );
  return {
    addresses: expected === undefined ? addresses : addresses.map((one) => withKey(one, key)),
    by: { place, key },
  };
}

/** Of the network, as a member has it. */
function networkOf({ networkPublicKey, networkFormer }: IntroduceResponse, world: World): NetworkKey | undefined {
  const shown = shownFromWire(networkPublicKey, networkFormer);
  return NetworkKey.of(undefined, shown, checks, () => world.clock.wallMs() / 1_000);
}

const checks = { verify: verifySignature, idOf: keyIdOf };

function orchestratorsIn({ orchestrators }: IntroduceResponse, network: NetworkKey): string[] {
  return orchestrators.flatMap((signed) => {
    const member = judge(signed, { ...checks, network });
    return typeof member === "string" || !member.roles.includes("orchestrator") ? [] : member.routes.slice(0, 1);
  });
}
