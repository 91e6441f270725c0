// A process of its own for conformance.ts: opens the store by its address and counts, with every seventh call's
// reply lost and every eleventh request.

import { conformanceWorld } from "./conformance.ts";
import { countUp } from "./conformance-race.ts";
import { withFaults } from "./faulty.ts";
import { openStateStore } from "./open.ts";

const [address = "", hotKeys = "", racer = "0"] = process.argv.slice(2);
const store = await openStateStore(address, { world: conformanceWorld });
let calls = Number(racer);
const faulty = withFaults(store, () => {
  calls++;
  return calls % 7 === 0 ? "lost reply" : calls % 11 === 0 ? "lost request" : "none";
});
await countUp(faulty, JSON.parse(hotKeys), conformanceWorld);
await store.close();
