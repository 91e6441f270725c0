import assert from "node:assert/strict";
import { it } from "node:test";
import type { PNodeId } from "../../core/ids.ts";
import type { AuditRecord } from "../records/checking.ts";
import { earnedIn } from "./closing.ts";

it("a machine earns trust by what was not drawn, and none by what was drawn and nobody repeated", () => {
  const [alone, other] = ["alone", "other"] as PNodeId[] as [PNodeId, PNodeId];
  const audit = (kind: "right" | "unchecked"): AuditRecord => ({
    ...{ stated: [], tasks: [], ready: true, accused: [] },
    outcome: { kind, by: kind === "right" ? "strangers" : "nobody", reason: "", result: "", wallMs: 0 },
  });
  const owners = { a: alone, b: alone, c: other, d: other, e: other };
  const audits = { a: audit("unchecked"), b: audit("unchecked"), c: audit("right") };
  assert.deepEqual([...earnedIn({ owners, audits })], [[other, 2]]);
});
