import assert from "node:assert/strict";
import { request } from "node:http";
import { after, before, describe, it } from "node:test";
import { type LendingPage, openLendingPage } from "./page.ts";
import type { LendingState } from "./screen.ts";
import type { Wish } from "./wishes.ts";

const state: LendingState = {
  ...{
    name: "birch",
    network: "lab:7700",
    address: "10.0.0.2:7000",
    reach: "It was called back.",
    lends: ["2 of 8 cores"],
  },
  readings: { attached: true, vnodes: [] } as unknown as LendingState["readings"],
  ...{ wish: "lend", refusal: "", problems: ["<b>trouble</b>"], log: [] },
  given: { lentMs: 60_000, steps: 7, computedMs: 5_000 },
};

describe("the owner's page", () => {
  const wished: Wish[] = [];
  let page: LendingPage;
  let token: string;
  const machine = { state, wish: async (wish: Wish) => void wished.push(wish) };

  before(async () => {
    page = await openLendingPage(machine, 0);
    token = /"x-token": "([\w-]+)"/.exec(await (await fetch(page.address)).text())?.[1] ?? "";
  });
  after(() => page.close());

  const ask = (method: string, path: string, headers: Record<string, string>, body = "") =>
    new Promise<{ status: number; text: string }>((resolve, reject) => {
      const sent = request(new URL(path, page.address), { method, headers }, async (response) => {
        let text = "";
        for await (const chunk of response) text += chunk;
        resolve({ status: response.statusCode ?? 0, text });
      });
      sent.on("error", reject).end(body);
    });

  it("says what the screen says, as text", async () => {
    const { status, text } = await ask("GET", "/state", { "x-token": token });
    assert.equal(status, 200);
    const shown = JSON.parse(text) as { now: string; gave: string[]; problems: string[] };
    assert.equal(shown.now, "ready, waits for work");
    assert.match(shown.gave.join(), /7 steps/);
    assert.deepEqual(shown.problems, ["<b>trouble</b>"]);
  });

  it("takes the owner's wishes, and no others", async () => {
    assert.equal((await ask("POST", "/wish", { "x-token": token }, "pause")).status, 200);
    assert.equal((await ask("POST", "/wish", { "x-token": token }, "explode")).status, 400);
    assert.equal((await ask("POST", "/wish", { "x-token": token }, "p".repeat(10_000))).status, 400);
    assert.deepEqual(wished, ["pause"]);
  });

  it("answers no other site: neither by a name that leads here, nor from its pages, nor without the token", async () => {
    const own = new URL(page.address).host;
    const strangers = [
      ["GET", "/", { host: "evil.example" }],
      ["POST", "/wish", { "x-token": token, origin: "http://evil.example" }],
      ["POST", "/wish", { host: own, origin: `http://${own}` }],
      ["GET", "/state", {}],
    ] as const;
    for (const [method, path, headers] of strangers)
      assert.equal((await ask(method, path, { ...headers }, "leave")).status, 403, `${method} ${path}`);
    assert.deepEqual(wished, ["pause"]);
  });

  it("says so when its port is taken", async () => {
    const port = Number(new URL(page.address).port);
    await assert.rejects(openLendingPage(machine, port), /port \d+ is in use/);
  });
});
