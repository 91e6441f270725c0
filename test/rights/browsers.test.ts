// Browsers prove a key as a page does it: with WebCrypto, JSON over HTTP, and no certificate of their own. Plain text on the
// machine itself, and TLS with a certificate that the operator brought.

import assert from "node:assert/strict";
import { webcrypto } from "node:crypto";
import { request as httpRequest } from "node:http";
import { request as httpsRequest } from "node:https";
import { text } from "node:stream/consumers";
import { test } from "node:test";
import { loadNetworkKey } from "../../src/cli/machine/keys/network-key.ts";
import { keyIdOf } from "../../src/core/keys.ts";
import { ApiKeys } from "../../src/orchestrator/rights/keys.ts";
import { certificateOf } from "../../src/protocol/identity/certificate.ts";
import { newIdentity } from "../../src/system/keys.ts";
import { RealStage } from "./stage.ts";

type Json = Readonly<Record<string, unknown>>;
type Ask = (
  method: string,
  body?: Json,
  token?: unknown,
) => Promise<{ readonly status: number; readonly answer: Json }>;

/** A page of the origin that it calls. */
function pageOf(address: string, certificate: string | undefined): Ask {
  const scheme = certificate === undefined ? "http" : "https";
  return async (method, body = {}, token = undefined) => {
    const headers = {
      "content-type": "application/json",
      origin: `${scheme}://${address}`,
      ...(token === undefined ? {} : { authorization: `Bearer ${String(token)}` }),
    };
    const url = `${scheme}://${address}/dcnr.v1.${method}`;
    // The certificate names nobody; that it is the operator's is what counts here.
    const trust = { ca: certificate, checkServerIdentity: () => undefined };
    return new Promise((resolve, reject) => {
      const sent =
        certificate === undefined
          ? httpRequest(url, { method: "POST", headers })
          : httpsRequest(url, { method: "POST", headers, agent: false, ...trust });
      sent.once("error", reject);
      sent.once("response", async (response) => {
        const answer = JSON.parse(await text(response)) as Json;
        resolve({ status: response.statusCode ?? 0, answer });
      });
      sent.end(JSON.stringify(body));
    });
  };
}

async function browserKey() {
  const { privateKey, publicKey } = (await webcrypto.subtle.generateKey("Ed25519", false, [
    "sign",
    "verify",
  ])) as webcrypto.CryptoKeyPair;
  const spki = new Uint8Array(await webcrypto.subtle.exportKey("spki", publicKey));
  const id = keyIdOf(spki);
  const answerTo = async (nonce: unknown, networkKey: unknown) => {
    const statement = new TextEncoder().encode(`dcnr challenge 1\n${String(networkKey)}\n${String(nonce)}\n${id}`);
    const signature = await webcrypto.subtle.sign("Ed25519", privateKey, statement);
    return {
      ...{ nonce, publicKey: Buffer.from(spki).toString("base64") },
      signature: Buffer.from(signature).toString("base64"),
    };
  };
  return { id, answerTo };
}

const web = newIdentity();
const webCertificate = { cert: certificateOf(web), key: web.privateKey };

for (const [way, certificate] of [
  ["plain text on the machine itself", undefined],
  ["TLS with the operator's certificate", webCertificate.cert],
] as const)
  test(`a browser's key is the caller, over ${way}`, async () => {
    const stage = new RealStage();
    try {
      const { address } = await stage.orchestrator(certificate ? { webCertificate } : {});
      const network = (await loadNetworkKey(stage.store, stage.world)).id;
      const ask = pageOf(address, certificate);
      const browser = await browserKey();
      await new ApiKeys(stage.store, stage.world, false).admit(browser.id, { name: "Ada", scopes: ["admin"] });

      const refused = await ask("RightsService/ListActs");
      assert.equal(refused.status, 401);
      const { answer: challenge } = await ask("RightsService/GetChallenge");
      assert.equal(challenge["networkKey"], network);
      const signed = await browser.answerTo(challenge["nonce"], network);
      const { answer: proof } = await ask("RightsService/ProveKey", signed);
      assert.equal(proof["id"], browser.id);
      const token = proof["token"];
      const { answer: caller } = await ask("RightsService/GetCaller", {}, token);
      assert.deepEqual([caller["id"], caller["owner"], caller["scopes"]], [browser.id, "Ada", ["admin"]]);
      assert.equal((await ask("RightsService/ListActs", {}, token)).status, 200);
      // As itself, where a machine would speak for itself: past the gate, there is no such session.
      assert.equal((await ask("PNodeService/Resolve", { session: "x" }, token)).answer["code"], "permission_denied");
      assert.equal((await ask("PNodeService/Resolve", { session: "x" })).answer["code"], "unauthenticated");

      assert.equal((await ask("RightsService/ProveKey", signed)).status, 401, "the same answer once more");
      const { answer: second } = await ask("RightsService/GetChallenge");
      const foreign = await browser.answerTo(second["nonce"], newIdentity().id);
      assert.equal((await ask("RightsService/ProveKey", foreign)).status, 401, "an answer for another network");
      const changed = `${String(token).slice(0, -2)}AA`;
      assert.equal((await ask("RightsService/ListActs", {}, changed)).status, 401);
      assert.equal((await ask("RightsService/GetCaller", {}, changed)).answer["id"] ?? "", "");
      const stranger = await browserKey();
      const { answer: third } = await ask("RightsService/GetChallenge");
      const known = await ask("RightsService/ProveKey", await stranger.answerTo(third["nonce"], network));
      assert.equal(
        (await ask("RightsService/ListActs", {}, known.answer["token"])).status,
        401,
        "proved, without rights",
      );
    } finally {
      await stage.stop();
    }
  });

test("a token of one network is nobody's at another, on the same machine too", async () => {
  const [one, other] = [new RealStage(), new RealStage()];
  try {
    const [first, second] = [await one.orchestrator(), await other.orchestrator()];
    const browser = await browserKey();
    for (const { store, world } of [one, other])
      await new ApiKeys(store, world, false).admit(browser.id, { name: "Ada", scopes: ["admin"] });
    const ask = pageOf(first.address, undefined);
    const { answer: challenge } = await ask("RightsService/GetChallenge");
    const signed = await browser.answerTo(challenge["nonce"], challenge["networkKey"]);
    const elsewhere = pageOf(second.address, undefined);
    assert.equal((await elsewhere("RightsService/ProveKey", signed)).status, 401);
    const { answer: proof } = await ask("RightsService/ProveKey", signed);
    assert.equal((await ask("RightsService/ListActs", {}, proof["token"])).status, 200);
    assert.equal((await elsewhere("RightsService/ListActs", {}, proof["token"])).status, 401);
  } finally {
    await one.stop();
    await other.stop();
  }
});
