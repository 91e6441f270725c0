import { strict as assert } from "node:assert";
import { describe, it } from "node:test";
import type { PNodeId } from "../../../core/ids.ts";
import { Speeds } from "./speeds.ts";

const maple = "maple" as PNodeId;

describe("speeds learned from work", () => {
  it("say nothing before there was enough of it", () => {
    const speeds = new Speeds();
    speeds.observe(maple, 40);
    speeds.observe(maple, 40);
    assert.equal(speeds.of(maple), undefined);
    speeds.observe(maple, 40);
    assert.equal(speeds.of(maple), 40);
  });

  it("follow a machine that becomes slower, and one that becomes faster again", () => {
    const speeds = new Speeds();
    for (let i = 0; i < 10; i++) speeds.observe(maple, 40);
    for (let i = 0; i < 40; i++) speeds.observe(maple, 5);
    assert.ok((speeds.of(maple) ?? 0) < 6);
    for (let i = 0; i < 60; i++) speeds.observe(maple, 40);
    assert.ok((speeds.of(maple) ?? 0) > 39);
  });
});
