// VouchingService: tells PNodes that relay for others who is of the network.

import type { PNodeId } from "../../core/ids.ts";
import { VouchingService } from "../../protocol/gen/dcnr/v1/relay_pb.ts";
import { type ServedService, service } from "../../protocol/network.ts";
import type { Context } from "../context.ts";
import type { Members } from "../fleet/attached/members.ts";
import { key } from "../records/store-keys.ts";

export function vouchingService({ mirror }: Context, members: Members): ServedService {
  return service(VouchingService, {
    vouch: async ({ pnode }) => {
      const id = pnode as PNodeId;
      const record = mirror.get(key.pnode(id)) ?? (await mirror.read(key.pnode(id)));
      return { member: record !== undefined && !members.isRevoked(id) };
    },
  });
}
