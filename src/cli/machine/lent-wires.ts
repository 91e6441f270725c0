// How a lent machine talks to others and signs: behind its gate (apart/apart.ts), or, where it is a child of `dcnr up` or keeps all rights, with key and
// sockets of its own. What comes of it is the same for everything above.

import { join } from "node:path";
import { fail, messageOf } from "../../core/errors.ts";
import type { Identity } from "../../core/keys.ts";
import type { World } from "../../core/world.ts";
import { type GatePlace, openNetworkBehind } from "../../protocol/gate/behind.ts";
import { GateControl } from "../../protocol/gate/gate-control.ts";
import { openGrpcNetwork } from "../../protocol/grpc.ts";
import { KeyBook } from "../../protocol/identity/key-book.ts";
import type { Network } from "../../protocol/network.ts";
import type { Reach } from "../../protocol/routes/reach.ts";
import { routedNetwork } from "../../protocol/routes/routed-network.ts";
import { loadKey, signingOf, verifyBy } from "../../system/keys.ts";
import { signAtOnce } from "../../system/threads/sign-at-once.ts";
import { backgroundTimers } from "../../system/timers.ts";
import type { Signing } from "../../trust/signing.ts";
import { orchestratorsAt } from "../joining/introduction.ts";
import { pinned, rememberSuccession } from "../joining/known-networks.ts";
import { reachableAddress } from "../joining/reachable.ts";
import type { PageDoor } from "../lending/page.ts";
import type { GateOrder } from "./apart/gate-order.ts";
import { untilAborted } from "./processes.ts";

export interface LentWires {
  readonly network: Network;
  /** For what members tell of themselves. */
  readonly identity: Identity;
  /** For what it says of its work. */
  readonly signing: Signing;
  /** Whom the owner sent it to, with the network's key. */
  orchestrators(): Promise<string[]>;
  /** Where others who share a network with somebody reach it. */
  located(bound: string, towards: string): Promise<string>;
  /** Absent: by itself. */
  readonly gate?: GatePlace;
  readonly page?: PageDoor;
  /** How traces reach the owner's collector; absent: from here. */
  readonly postTraces?: (body: string) => Promise<void>;
  close(): Promise<void>;
}

export interface LentWiresOptions extends Pick<GateOrder, "directory" | "named" | "web"> {
  readonly world: World;
  readonly say: (sentence: string) => void;
  readonly signal: AbortSignal;
  readonly patienceMs: number;
  readonly reach: Reach;
}

/** With a key and sockets of its own. */
export async function ownWires(options: LentWiresOptions): Promise<LentWires> {
  const { directory, world, web, reach, named } = options;
  const identity = await loadKey(directory, world.chance);
  const path = join(directory, "networks.json");
  const keys = new KeyBook((former, newest) => {
    world.log("info", `${former} has a new key, for which it has signed: ${newest}`);
    rememberSuccession(path, former, newest).catch((error: unknown) => world.log("warn", messageOf(error)));
  });
  const wires = openGrpcNetwork({
    ...{ timers: backgroundTimers, log: world.log, identity, keys, reach },
    // Where only the web passes, no router lets anything else through.
    ...{ web, punches: !web },
  });
  const network = routedNetwork(wires, { ...world, timers: backgroundTimers });
  const asking = { ...options, path };
  return {
    ...{ network, identity, signing: signingOf(identity), located: reachableAddress },
    orchestrators: async () => pinned(await orchestratorsAt(named, { ...asking, network }), asking),
    close: () => network.close(),
  };
}

/** With those of the gate. */
export async function wiresBehind(gate: GatePlace, options: LentWiresOptions): Promise<LentWires> {
  const { world, say, web, signal } = options;
  const control = await GateControl.open({
    ...gate,
    ...{ log: world.log, say },
    onGone: () => {
      process.stderr.write("dcnr: the gate of this PNode has ended, and so does the PNode: start it again\n");
      process.exit(1);
    },
  });
  const { id, publicKey, former } = control.identity;
  const atOnce = signAtOnce(gate);
  const keys = new KeyBook();
  const wires = openNetworkBehind({ ...gate, timers: backgroundTimers, log: world.log, control, keys, web });
  const network = routedNetwork(wires, { ...world, timers: backgroundTimers });
  return {
    ...{ network, gate },
    identity: { id, publicKey, ...(former.length > 0 && { former }), sign: (content) => atOnce.sign(content) },
    signing: { id, publicKey, sign: (content) => control.sign(content), verify: verifyBy },
    orchestrators: () =>
      Promise.race([
        control.request("orchestrators") as Promise<string[]>,
        untilAborted(signal).then(() => fail("cancelled", "stopped before an orchestrator has answered")),
      ]),
    located: async (bound, towards) => String(await control.request("located", { bound, towards })),
    page: async (welcome) => {
      control.onPage(welcome);
      return Number(await control.request("page"));
    },
    postTraces: async (body) => void (await control.request("traces", body)),
    close: async () => {
      await network.close();
      atOnce.stop();
      control.close();
    },
  };
}
