// The program of a PNode's gate (src/protocol/gate): the key, TLS and all connections of a machine that is lent. It is told what to do on its
// standard input, says "ready" on its standard output, and ends when the PNode's process has.

import { rmSync } from "node:fs";
import { dirname, join } from "node:path";
import { text } from "node:stream/consumers";
import { messageOf } from "../../../core/errors.ts";
import type { Log } from "../../../core/world.ts";
import { Gate } from "../../../protocol/gate/gate.ts";
import { GateDialing } from "../../../protocol/gate/gate-dialing.ts";
import { KeyBook } from "../../../protocol/identity/key-book.ts";
import { Reach } from "../../../protocol/routes/reach.ts";
import { guestLimitsDefault } from "../../../protocol/server/limits.ts";
import { loadKey } from "../../../system/keys.ts";
import { backgroundTimers } from "../../../system/timers.ts";
import { realWorld } from "../../../system/world.ts";
import { rememberSuccession } from "../../joining/known-networks.ts";
import type { GateOrder } from "./gate-order.ts";
import { gateRequests } from "./gate-requests.ts";

// Whoever stops the PNode means the PNode, which hands its work over by this process; it ends with that one.
for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"] as const) process.on(signal, () => {});
// Whoever has started it reads one word and leaves.
process.stdout.on("error", () => {});

const order = JSON.parse(await text(process.stdin)) as GateOrder;
const world = realWorld({ logFormat: "none" });
const log: Log = (level, sentence) => gate.tell({ kind: "log", level, sentence });
const networks = join(order.directory, "networks.json");
const keys = new KeyBook((former, newest) => {
  log("info", `${former} has a new key, for which it has signed: ${newest}`);
  rememberSuccession(networks, former, newest).catch((error: unknown) => log("warn", messageOf(error)));
});
const identity = await loadKey(order.directory, world.chance);
const reach = new Reach(order.named, order.networks);
const dialing = new GateDialing({ timers: backgroundTimers, identity, keys, web: order.web, reach });
const gate: Gate = new Gate({
  ...{ timers: backgroundTimers, log, path: order.path, token: order.token, identity, dialing, listen: order.listen },
  ...(order.page !== undefined && { page: order.page }),
  limits: guestLimitsDefault,
  requests: gateRequests({ ...order, path: networks, network: dialing.client, world, reach }),
  onGone: () => end(),
});

function end(): never {
  gate.close();
  if (process.platform !== "win32") rmSync(order.path, { force: true });
  if (order.isFolderOurs) rmSync(dirname(order.path), { recursive: true, force: true });
  process.exit(0);
}

// Before the PNode's first word nothing else tells that it is gone.
setInterval(() => process.ppid === order.parent || end(), 500);
// Nobody else's from its first moment on.
process.umask(0o077);
await gate.open();
process.stdout.write("ready\n");
