// The dashboard in the Firefox of this machine, where there is one: every page comes up without an error, the graph groups and
// finds, curves are drawn, the chat streams. What it finds is told; DCNR_BROWSERS=all makes it count.

import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { fakeCompany } from "../../bench/fake-company.ts";
import { FakeFleet, sessionId } from "../../bench/fake-fleet.ts";
import { serveFake } from "../../bench/fake-orchestrator.ts";
import { fakeStudy } from "../../bench/fake-study.ts";
import type { Server } from "../../src/protocol/network.ts";
import { buildDashboard } from "../../web/build.ts";
import { countedOnRequest, Firefox, firefoxHere } from "./firefox.ts";

const program = firefoxHere();
const how = countedOnRequest(program);

let server: Server | undefined;
let firefox: Firefox | undefined;

before(async () => {
  if (!program) return;
  const fleet = new FakeFleet({ pnodes: 4, vnodes: 60, lossEvery: 0, past: 3 });
  for (let step = 0; step < 60; step += 1) fleet.advance();
  const options = { handlers: fakeCompany(), studies: [fakeStudy] };
  server = await serveFake(fleet, await buildDashboard(), 300, options);
  firefox = await Firefox.launch(program);
  await firefox.resize(1366, 768);
});
after(async () => {
  await firefox?.close();
  await server?.close();
});

const has = (selector: string) => `document.querySelector(${JSON.stringify(selector)})`;
const told = (text: string) => `document.body.innerText.includes(${JSON.stringify(text)})`;

/** As a person would: React hears of it. */
const type = (label: string, text: string) => `(() => {
  const field = document.querySelector('[aria-label="${label}"]');
  const kind = field.tagName === "TEXTAREA" ? HTMLTextAreaElement : HTMLInputElement;
  Object.getOwnPropertyDescriptor(kind.prototype, "value").set.call(field, ${JSON.stringify(text)});
  field.dispatchEvent(new Event("input", { bubbles: true }));
})()`;

test("Firefox shows a training: groups, curve above the fold, what is looked for", how, async () => {
  assert.ok(firefox && server);
  await firefox.go(`http://${server.address}/`);
  await firefox.until(`location.hash === "#/sessions/${sessionId}"`);
  await firefox.until("document.querySelectorAll('[data-vnode][data-host]').length === 60");
  await firefox.until(has(".plot-box canvas"));
  await firefox.until(`${has(".plot-box")}.getBoundingClientRect().bottom <= innerHeight`);
  await firefox.evaluate(type("Find VNodes by name, machine or phase", "machine-2"));
  await firefox.until(told("15 VNodes found"));
  assert.deepEqual(firefox.faults, []);
});

test("Firefox's chat streams and is stopped, with its pace", how, async () => {
  assert.ok(firefox);
  await firefox.evaluate(type("Message", "The whale"));
  await firefox.evaluate(`${has(".chat-form button")}.click()`);
  await firefox.until("/\\d+ tokens, [\\d.]+\\/s/.test(document.body.innerText)");
  await firefox.evaluate(`${has(".chat-form button")}.click()`);
  await firefox.until(told("stopped after"));
  assert.deepEqual(firefox.faults, []);
});

test("every page comes up in Firefox, and fits a phone", how, async () => {
  assert.ok(firefox && server);
  const pages = {
    ...{ runs: "choose up to", jobs: "in line", studies: "Trial 6" },
    ...{ report: "budget left", trust: "an operator vouches for it", credits: "grace" },
  };
  for (const [page, text] of Object.entries(pages)) {
    await firefox.evaluate(`void (location.hash = "#/${page}")`);
    await firefox.until(told(text));
    await firefox.resize(390, 844);
    await firefox.until("document.documentElement.scrollWidth <= innerWidth");
    await firefox.resize(1366, 768);
  }
  assert.deepEqual(firefox.faults, []);
});
