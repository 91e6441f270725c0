// The key by which the network draws what is checked: RSA, whose signature of a text is the only one there is, so that nobody
// can choose among several. Made by the first orchestrator, kept in the store that they share.

import { constants, createPublicKey, generateKeyPair, sign } from "node:crypto";
import { promisify } from "node:util";
import { fail } from "../../../core/errors.ts";
import type { Lottery } from "../../../orchestrator/trust/lottery.ts";
import type { StateStore } from "../../../store/records/state-store.ts";

const name = "secret/lottery";
const bits = 2_048;

export async function loadLottery(store: StateStore): Promise<Lottery> {
  const known = await store.get(name);
  if (known) return lotteryOf(known.value);
  const { privateKey } = await promisify(generateKeyPair)("rsa", { modulusLength: bits });
  const key = privateKey.export({ type: "pkcs8", format: "pem" });
  const value = JSON.stringify({ key });
  if ((await store.put(name, value, 0)) !== undefined) return lotteryOf(value);
  // Another orchestrator was faster, or the answer to this write was lost.
  const written = await store.get(name);
  return written
    ? lotteryOf(written.value)
    : fail("unavailable", "the store does not keep the lottery's key: try again");
}

function lotteryOf(value: string): Lottery {
  const { key } = JSON.parse(value) as { readonly key: string };
  const publicKey = createPublicKey(key).export({ type: "spki", format: "pem" }) as string;
  return {
    publicKey,
    draw: async (content) => sign("sha256", content, { key, padding: constants.RSA_PKCS1_PADDING }).toString("base64"),
  };
}
