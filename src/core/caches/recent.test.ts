import assert from "node:assert/strict";
import { it } from "node:test";
import { Recent } from "./recent.ts";

it("keeps what was used last, as a list that is searched from its end would", () => {
  const recent = new Recent<number, string>(3);
  const model: number[] = [];
  const use = (key: number) => {
    if (model.includes(key)) model.splice(model.indexOf(key), 1);
    model.push(key);
    model.splice(0, Math.max(0, model.length - 3));
  };
  for (let i = 0; i < 500; i++) {
    const key = (i * 7 + (i % 5) * 3) % 9;
    if (i % 3 === 0) {
      assert.equal(recent.get(key), model.includes(key) ? `value of ${key}` : undefined);
      if (model.includes(key)) use(key);
    } else if (i % 11 === 0) {
      recent.delete(key);
      if (model.includes(key)) model.splice(model.indexOf(key), 1);
    } else {
      recent.set(key, `value of ${key}`);
      use(key);
    }
    assert.equal(recent.size, model.length);
    for (let other = 0; other < 9; other++) assert.equal(recent.has(other), model.includes(other), `${i}: ${other}`);
  }
});
