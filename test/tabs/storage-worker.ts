// Runs in a worker of a real browser: what src/tab keeps there. Tells a list of what it found.

import { sha256 } from "../../src/core/hash.ts";
import { openTabTransfer } from "../../src/tab/blobs.ts";
import { openTabCache, openTabSpill } from "../../src/tab/files.ts";
import { loadTabIdentity } from "../../src/tab/identity.ts";

const text = (content: Uint8Array | undefined) => content && new TextDecoder().decode(content);
const bytes = (content: string) => new TextEncoder().encode(content);
const failureOf = (work: Promise<unknown>) =>
  work.then(
    () => "nothing",
    (error: Error & { code?: unknown }) => (typeof error.code === "string" ? error.code : error.name),
  );

async function facts() {
  const spill = await openTabSpill(100);
  const cache = await openTabCache(100);
  if (spill === undefined || cache === undefined) return { disk: "none" };
  await spill.write("a", bytes("first"));
  await spill.write("a", bytes("other"));
  const shared = new Uint8Array(new SharedArrayBuffer(5));
  await spill.read("a", shared);
  const tooMuch = await failureOf(spill.write("b", new Uint8Array(96)));
  await spill.remove("a");
  const afterwards = await failureOf(spill.write("b", new Uint8Array(96)));
  const hash = sha256("shard");
  await cache.put(hash, bytes("shard"));
  const [one, two] = [await loadTabIdentity(), await loadTabIdentity()];
  const content = bytes("said");
  const signature = await one.sign(content);
  const foreign: string[] = [];
  const transfer = openTabTransfer(location.origin, (host) => foreign.push(host));
  const missing = await failureOf(
    transfer.download({ url: `${location.origin}/nothing`, headers: {} }, new Uint8Array(3)),
  );
  const elsewhere = await failureOf(transfer.download({ url: "https://s3.example/x", headers: {} }, new Uint8Array(3)));
  const room = new Uint8Array(new SharedArrayBuffer(4));
  await transfer.download({ url: `${location.origin}/blob`, headers: {} }, room);
  const longer = await failureOf(transfer.download({ url: `${location.origin}/blob`, headers: {} }, new Uint8Array(3)));
  return {
    spilled: text(new Uint8Array(shared)),
    ...{ tooMuch, afterwards },
    gone: await failureOf(spill.read("a")),
    cached: text(await cache.get(hash)),
    unknown: text(await cache.get(sha256("nothing"))),
    ...{ isKept: one.isKept, same: one.id === two.id },
    signed: await two.verify(one.id, one.publicKey, content, signature),
    forged: await two.verify(one.id, one.publicKey, bytes("Said"), signature),
    others: await two.verify("somebody", one.publicKey, content, signature),
    ...{ missing, elsewhere, foreign, longer, downloaded: text(new Uint8Array(room)) },
    isSha256: sha256("abc"),
  };
}

facts().then(
  (found) => self.postMessage(found),
  (error: unknown) => self.postMessage({ error: String(error) }),
);
