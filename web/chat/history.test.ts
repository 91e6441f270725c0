import assert from "node:assert/strict";
import { test } from "node:test";
import { bounded, recall, remember, saidIn, settled, type Turn } from "./history.ts";

class Drawer {
  readonly kept = new Map<string, string>();
  getItem = (name: string) => this.kept.get(name) ?? null;
  setItem = (name: string, text: string) => void this.kept.set(name, text);
  removeItem = (name: string) => void this.kept.delete(name);
}

const turn = (id: number, text: string, state: Turn["state"] = "done"): Turn => ({
  id,
  who: id % 2 === 0 ? "you" : "model",
  text,
  state,
  note: "",
});

test("a conversation is there again, each model's own, until it is forgotten", () => {
  const drawer = new Drawer();
  const turns = [turn(0, "Hello"), turn(1, "Hi")];
  remember("gpt", turns, drawer);
  assert.deepEqual(recall("gpt", drawer), turns);
  assert.deepEqual(recall("other", drawer), []);
  remember("gpt", [], drawer);
  assert.equal(drawer.kept.size, 0);
});

test("what somebody else left in the drawer is no conversation", () => {
  for (const text of ["{", "null", "7", '[{"id":1}]', '[{"id":0,"who":"you","text":5,"state":"done","note":""}]']) {
    const drawer = new Drawer();
    drawer.setItem("dcnr-chat-gpt", text);
    assert.deepEqual(recall("gpt", drawer), [], text);
  }
});

test("long conversations keep their newest pairs", () => {
  const many = Array.from({ length: 500 }, (_, id) => turn(id, `text ${id}`));
  const kept = bounded(many);
  assert.ok(kept.length <= 60 && kept.length > 50);
  assert.equal(kept[0]?.who, "you");
  assert.equal(kept.at(-1)?.id, 499);
  const large = [turn(0, "x".repeat(90_000)), turn(1, "y".repeat(90_000)), turn(2, "a"), turn(3, "b")];
  assert.deepEqual(
    bounded(large).map(({ id }) => id),
    [2, 3],
  );
});

test("a model is told what was answered whole, and nothing else", () => {
  const turns = [
    turn(0, "a"),
    turn(1, "b"),
    turn(2, "c"),
    turn(3, "d", "stopped"),
    turn(4, "e"),
    turn(5, "", "failed"),
  ];
  assert.deepEqual(saidIn(turns), [
    { role: "user", content: "a" },
    { role: "assistant", content: "b" },
  ]);
});

test("an answer that was arriving when the page was left is broken off", () => {
  assert.deepEqual(
    settled([turn(0, "a"), turn(1, "b", "arriving")]).map(({ state }) => state),
    ["done", "stopped"],
  );
});
