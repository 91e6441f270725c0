// ProviderService: where machines come from when there is more work than room.

import { ProviderService } from "../../protocol/gen/dcnr/v1/provider_pb.ts";
import { type ServedService, service } from "../../protocol/network.ts";
import type { Providers } from "../providers/providers.ts";

export function providerService(providers: Providers): ServedService {
  return service(ProviderService, {
    addProvider: async (request) => ({ provider: providers.view(await providers.add(request)) }),
    listProviders: async () => ({ providers: providers.list() }),
    testProvider: ({ name }) => providers.test(name),
    removeProvider: async ({ name }) => {
      await providers.remove(name);
      return {};
    },
  });
}
