// gRPC's own health service, for load balancers and probes; served beside SystemService.

import type { Timers } from "../../core/world.ts";
import { sleep } from "../../core/world.ts";
import { Health, HealthCheckResponse_ServingStatus } from "../gen/grpc/health/v1/health_pb.ts";
import { type ServedService, service } from "../network.ts";

const watchIntervalMs = 1_000;

export function healthService(isReady: () => boolean, timers: Timers): ServedService {
  const status = () =>
    isReady() ? HealthCheckResponse_ServingStatus.SERVING : HealthCheckResponse_ServingStatus.NOT_SERVING;
  return service(Health, {
    check: async () => ({ status: status() }),
    watch: async function* (_request, context) {
      let last: HealthCheckResponse_ServingStatus | undefined;
      while (!context.signal.aborted) {
        const now = status();
        if (now !== last) yield { status: now };
        last = now;
        await sleep(timers, watchIntervalMs, context.signal);
      }
    },
  });
}
