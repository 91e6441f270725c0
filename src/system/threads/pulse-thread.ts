// The thread that says that this process lives, whatever the others are busy with. It does nothing else, so it is late
// only when the whole machine is.

import { parentPort, workerData } from "node:worker_threads";
import { silentLog, sleep } from "../../core/world.ts";
import { openNetworkBehind } from "../../protocol/gate/behind.ts";
import { PNodeService } from "../../protocol/gen/dcnr/v1/pnode_pb.ts";
import { openGrpcNetwork } from "../../protocol/grpc.ts";
import type { Network } from "../../protocol/network.ts";
import { Reach } from "../../protocol/routes/reach.ts";
import { realTimers } from "../timers.ts";
import { hrtimeMs, type PulseOrder, type PulseShared, turnMs } from "./pulse.ts";

const { times } = workerData as PulseShared;
let current: { readonly token: string; readonly ending: AbortController } | undefined;

parentPort?.on("message", (order: PulseOrder) => {
  current?.ending.abort();
  const ending = new AbortController();
  current = { token: order.token, ending };
  void follow(order, ending.signal);
});

/** Until another order comes, or the orchestrator knows the attachment no more. */
async function follow(order: PulseOrder, signal: AbortSignal): Promise<void> {
  const reach = order.networks && new Reach([], order.networks);
  const { web = false, gate } = order;
  const network = gate
    ? openNetworkBehind({ ...gate, timers: realTimers, log: silentLog, web })
    : openGrpcNetwork({ timers: realTimers, web, ...(reach && { reach }) });
  while (!signal.aborted) {
    const known = await pulseOnce(network, order, signal);
    if (!known) break;
    await sleep(realTimers, order.intervalMs, signal);
  }
  await network.close();
}

/** False if the orchestrator refused it. */
async function pulseOnce(
  network: Network,
  { orchestrator, token, intervalMs }: PulseOrder,
  signal: AbortSignal,
): Promise<boolean> {
  const channel = network.open(orchestrator, PNodeService.method.pulse, { signal });
  const sending = (async () => {
    for (;;) {
      const lateMs = Math.max(0, hrtimeMs() - (times[0] as number) - turnMs);
      await channel.send({ token, lateMs });
      await sleep(realTimers, intervalMs, signal);
    }
  })().catch(() => {});
  try {
    for await (const _ of channel.incoming) times[1] = hrtimeMs();
    return !signal.aborted;
  } catch (error) {
    return (error as { code?: string }).code !== "not_found";
  } finally {
    channel.close();
    await Promise.race([sending, sleep(realTimers, intervalMs)]);
  }
}
