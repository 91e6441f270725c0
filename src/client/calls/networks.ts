// Calls about networks: definitions by name.

import { type Network as NetworkInfo, NetworkService } from "../../protocol/gen/dcnr/v1/network_pb.ts";
import { allPages, type Line } from "./line.ts";

export const networkCalls = (line: Line) => ({
  create: async (definition: string, options: { id?: string } = {}): Promise<NetworkInfo> => {
    const method = NetworkService.method.createNetwork;
    const { network } = await line.call(method, { definition, id: options.id ?? "" });
    return network!;
  },
  get: (id: string) => line.call(NetworkService.method.getNetwork, { id }),
  list: (): Promise<NetworkInfo[]> =>
    allPages(async (pageToken) => {
      const page = await line.call(NetworkService.method.listNetworks, { pageToken });
      return { items: page.networks, next: page.nextPageToken };
    }),
  delete: (id: string) => line.call(NetworkService.method.deleteNetwork, { id }),
});
