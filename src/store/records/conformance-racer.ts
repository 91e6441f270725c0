// A process of its own for the conformance suite: opens the store by its address and counts.

import { realWorld } from "../../system/world.ts";
import { openStateStore } from "../open.ts";
import { countUp, withLosses } from "./conformance-race.ts";

const [address = "", hotKeys = "", racer = "0"] = process.argv.slice(2);
const world = realWorld({ logFormat: "none" });
const store = await openStateStore(address, { world });
await countUp(withLosses(store, Number(racer)), JSON.parse(hotKeys), world);
await store.close();
