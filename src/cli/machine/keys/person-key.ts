// The key of the person who uses this client: made at first use, kept with the person's data, readable by the person alone.

import { loadKey, type RealIdentity } from "../../../system/keys.ts";
import { realWorld } from "../../../system/world.ts";
import { dataDirectory } from "../directories.ts";

export function personKey(): Promise<RealIdentity> {
  return loadKey(dataDirectory(undefined, process.env, "person"), realWorld({ logFormat: "none" }).chance);
}
