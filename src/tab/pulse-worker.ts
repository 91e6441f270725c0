// The worker that says that this page lives, whatever its others are busy with. It does nothing else, and does not depend on the
// page's own timers, which browsers slow down when it is hidden.

import { sleep } from "../core/world.ts";
import { PNodeService } from "../protocol/gen/dcnr/v1/pnode_pb.ts";
import type { Network } from "../protocol/network.ts";
import { openSocketNetwork } from "../protocol/socket/socket-network.ts";
import { type PulseOrder, turnMs } from "./pulse.ts";
import { sharedMs, tabTimers } from "./world.ts";

let ending: AbortController | undefined;

self.onmessage = ({ data }: MessageEvent<PulseOrder>) => {
  ending?.abort();
  ending = new AbortController();
  void follow(data, ending.signal);
};

/** Until another order comes, or the orchestrator knows the attachment no more. */
async function follow(order: PulseOrder, signal: AbortSignal): Promise<void> {
  const network = openSocketNetwork({ timers: tabTimers, secure: order.secure });
  while (!signal.aborted) {
    const known = await pulseOnce(network, order, signal);
    if (!known) break;
    await sleep(tabTimers, order.intervalMs, signal);
  }
  await network.close();
}

/** False if the orchestrator refused it. */
async function pulseOnce(
  network: Network,
  { orchestrator, token, intervalMs, times }: PulseOrder,
  signal: AbortSignal,
): Promise<boolean> {
  const channel = network.open(orchestrator, PNodeService.method.pulse, { signal });
  const sending = (async () => {
    for (;;) {
      const lateMs = Math.max(0, sharedMs() - (times[0] as number) - turnMs);
      await channel.send({ token, lateMs });
      await sleep(tabTimers, intervalMs, signal);
    }
  })().catch(() => {});
  try {
    for await (const _ of channel.incoming) times[1] = sharedMs();
    return !signal.aborted;
  } catch (error) {
    return (error as { code?: string }).code !== "not_found";
  } finally {
    channel.close();
    await Promise.race([sending, sleep(tabTimers, intervalMs)]);
  }
}
