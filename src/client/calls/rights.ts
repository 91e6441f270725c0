// Calls about keys, what they are good for, and what was done with them.

import type { MessageInitShape } from "@bufbuild/protobuf";
import { type CreateApiKeyRequestSchema, InferenceService } from "../../protocol/gen/dcnr/v1/inference_pb.ts";
import { type ListActsRequestSchema, RightsService } from "../../protocol/gen/dcnr/v1/rights_pb.ts";
import type { Line } from "./line.ts";

/** What a key should be good for; see `dcnr key create --help`. */
export type KeyInit = Omit<MessageInitShape<typeof CreateApiKeyRequestSchema>, "$typeName">;

export type ActFilter = Omit<MessageInitShape<typeof ListActsRequestSchema>, "$typeName">;

export const keyCalls = (line: Line) => ({
  create: (wish: KeyInit) => line.call(InferenceService.method.createApiKey, wish),
  /** Rights for a person's own key, of which only the person has the secret half. */
  admit: (key: string, wish: KeyInit) => line.call(RightsService.method.admitKey, { ...wish, key }),
  list: async () => (await line.call(InferenceService.method.listApiKeys, {})).keys,
  delete: (id: string) => line.call(InferenceService.method.deleteApiKey, { id }),
});

export const rightCalls = (line: Line) => ({
  /** Whom the orchestrator takes this client for. */
  caller: () => line.call(RightsService.method.getCaller, {}),
  /** Replaces the network's key by one that it signs for. */
  rotateNetworkKey: () => line.call(RightsService.method.rotateNetworkKey, {}),
  /** Administrative acts, newest first, at most `limit` of them. */
  acts: (filter: ActFilter = {}) => line.call(RightsService.method.listActs, filter),
});
