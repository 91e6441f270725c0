import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { type Grouped, Grouping } from "./grouping.ts";

interface Ask extends Grouped {
  readonly name: string;
}

/** Shows the groups, each of which is answered when it is told so. */
function shown(limits: { atOnce?: number; sizeMax?: number; bytesMax?: number } = {}) {
  const groups: { names: string[]; end: () => void; fail: (error: Error) => void }[] = [];
  const grouping = new Grouping<Ask, string>(
    { atOnce: 1, sizeMax: 10, bytesMax: 100, ...limits },
    (group) =>
      new Promise((resolve, reject) => {
        const names = group.map(({ name }) => name);
        groups.push({ names, end: () => resolve(names.map((name) => name.toUpperCase())), fail: reject });
      }),
  );
  const turn = () => new Promise<void>((resolve) => setImmediate(resolve));
  return { groups, grouping, turn, names: () => groups.map(({ names }) => names.join(" ")) };
}

describe("calls that come together", () => {
  it("go together, each with its own answer, and others gather meanwhile", async () => {
    const { grouping, groups, turn, names } = shown();
    const first = ["a", "b"].map((name) => grouping.ask({ name, bytes: 1 }));
    await turn();
    const second = ["c", "d", "e"].map((name) => grouping.ask({ name, bytes: 1 }));
    await turn();
    assert.deepEqual(names(), ["a b"]);
    groups[0]?.end();
    assert.deepEqual(await Promise.all(first), ["A", "B"]);
    await turn();
    assert.deepEqual(names(), ["a b", "c d e"]);
    groups[1]?.end();
    assert.deepEqual(await Promise.all(second), ["C", "D", "E"]);
    const last = grouping.ask({ name: "f", bytes: 1 });
    await turn();
    groups[2]?.end();
    assert.equal(await last, "F", "it starts again after a pause");
  });

  it("stay within their bounds, and the large are not left behind", async () => {
    const { grouping, groups, turn, names } = shown({ sizeMax: 2, bytesMax: 10 });
    const asks = [
      ...[3, 3, 3, 99, 2].map((bytes, index) => grouping.ask({ name: `${index}:${bytes}`, bytes })),
      grouping.ask({ name: "5:1", bytes: 1 }),
    ];
    for (let index = 0; index < 4; index++) {
      await turn();
      groups[index]?.end();
    }
    await Promise.all(asks);
    assert.deepEqual(names(), ["0:3 1:3", "2:3 4:2", "3:99", "5:1"]);
  });

  it("that must stay apart do, in their order", async () => {
    const { grouping, groups, turn, names } = shown();
    const asks = ["x1", "y1", "x2", "x3", "y2"].map((name) =>
      grouping.ask({ name, apart: name[0] as string, bytes: 1 }),
    );
    for (let index = 0; index < 3; index++) {
      await turn();
      groups[index]?.end();
    }
    assert.deepEqual(await Promise.all(asks), ["X1", "Y1", "X2", "X3", "Y2"]);
    assert.deepEqual(names(), ["x1 y1", "x2 y2", "x3"]);
  });

  it("fail together, and those after them do not", async () => {
    const { grouping, groups, turn } = shown();
    const first = ["a", "b"].map((name) => grouping.ask({ name, bytes: 1 }));
    const failed = Promise.allSettled(first);
    await turn();
    const next = grouping.ask({ name: "c", bytes: 1 });
    groups[0]?.fail(new Error("gone"));
    assert.deepEqual(
      (await failed).map(({ status }) => status),
      ["rejected", "rejected"],
    );
    await turn();
    groups[1]?.end();
    assert.equal(await next, "C");
  });
});
