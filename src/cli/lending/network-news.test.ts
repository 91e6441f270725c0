import assert from "node:assert/strict";
import { test } from "node:test";
import { fail } from "../../core/errors.ts";
import { askNetwork, updateNotice } from "./network-news.ts";

test("a newer release is noticed, by numbers and not by letters", () => {
  assert.match(updateNotice("0.2.9", "0.2.10") ?? "", /runs DCNR 0\.2\.10, this is 0\.2\.9: install/);
  for (const [own, theirs] of [
    ["0.2.0", "0.2.0"],
    ["0.2.10", "0.2.9"],
    ["1.0.0", "0.9.9"],
    ["0.1.0", "unknown"],
    ["unknown", "0.1.0"],
  ] as const)
    assert.equal(updateNotice(own, theirs), undefined, `${own} beside ${theirs}`);
});

test("the first orchestrator that answers tells what was earned, and which release it runs", async () => {
  const call = async (at: string, method: { readonly name: string }) => {
    if (at === "away") fail("unavailable", "nothing answers");
    return method.name === "GetVersion" ? { software: "0.3.0" } : { balances: [{ earned: 40n }, { earned: 2n }] };
  };
  const news = await askNetwork({ id: "me", software: "0.1.0" }, ["away", "here"], { call: call as never });
  assert.equal(news.earned, 42n);
  assert.match(news.update ?? "", /0\.3\.0/);
  await assert.rejects(askNetwork({ id: "me", software: "0.1.0" }, ["away"], { call: call as never }));
});
