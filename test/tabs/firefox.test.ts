// A page of the Firefox of this machine, where there is one, lends it: in a tab that is hidden it trains with a process to the root of the process
// alone. What it finds is told; DCNR_BROWSERS=all makes it count.

import assert from "node:assert/strict";
import { test } from "node:test";
import { countedOnRequest, Firefox, firefoxHere } from "../browser/firefox.ts";
import { ended } from "../small-training.ts";
import { settings, withFleet } from "./fleet.ts";

const program = firefoxHere();
const how = countedOnRequest(program);

/** More than twice the silence after which a machine is given up. */
const hiddenMs = 8_000;

const textOf = (id: string) => `document.getElementById(${JSON.stringify(id)}).textContent`;

test("a hidden tab of Firefox trains beside a process, to the root of the process alone", how, async () => {
  assert.ok(program);
  await withFleet(async ({ client, orchestrator }) => {
    const alone = await ended(client, (await client.sessions.create({ ...settings, steps: 24n, spread: 1 })).id);
    assert.equal(alone.status, "done", alone.reason);
    await client.sessions.delete(alone.id);
    const firefox = await Firefox.launch(program);
    try {
      await firefox.go(`http://${orchestrator.address}/join`);
      await firefox.until("!document.getElementById('limits').hidden");
      await firefox.evaluate(`(() => {
        document.getElementById("cores").value = "1";
        document.getElementById("name").value = "fox";
        document.getElementById("lend").click();
      })()`);
      await firefox.until("document.body.innerText.includes('Ready. It waits for work.')", 120_000);
      await firefox.until("document.body.innerText.includes('by relay')");
      await firefox.hide();
      await firefox.until("document.hidden");
      await new Promise((resolve) => setTimeout(resolve, hiddenMs));
      const nodes = await client.fleet.pnodes();
      assert.equal(
        nodes.find(({ name }) => name === "fox")?.status,
        "online",
        "its heartbeats need no timers of the page",
      );
      const { id } = await client.sessions.create({ ...settings, steps: 24n, spread: 2 });
      const session = await ended(client, id);
      assert.equal(session.status, "done", session.reason);
      assert.equal(session.stepRoot, alone.stepRoot);
      assert.equal(await firefox.evaluate("document.hidden"), true);
      const [pieces, log] = [await firefox.evaluate(textOf("visit")), await firefox.evaluate(textOf("log"))];
      assert.match(String(pieces), /^[1-9]\d* pieces of work/, String(log));
    } finally {
      await firefox.close();
    }
  });
});
