// A replica of a served model that nobody names: its orchestrator died between making it and saying so.

import assert from "node:assert/strict";
import { it } from "node:test";
import { key, type ModelRecord, type SessionRecord } from "../../src/orchestrator/records/records.ts";
import { Stage } from "./stage.ts";

it("a replica that no model names is ended after a while, and one that is named stays", async () => {
  const stage = new Stage();
  const orchestrator = await stage.orchestrator("o1");
  const waiting = (await stage.sessionRecord(await stage.session())) as SessionRecord;
  const { mirror } = orchestrator.parts.context;
  const serving = { model: "speaker" };
  for (const id of ["serve-speaker-1", "serve-speaker-2"])
    await stage.settled(mirror.update(key.session(id), () => ({ ...waiting, id: id as SessionRecord["id"], serving })));
  const model = { name: "speaker", sessions: ["serve-speaker-2"] } as unknown as ModelRecord;
  await stage.settled(mirror.update(key.model("speaker"), () => model));
  const statusOf = async (id: string) => (await stage.sessionRecord(id))?.status ?? "deleted";
  await stage.pass(60_000);
  assert.notEqual(await statusOf("serve-speaker-1"), "deleted", "whoever makes it may still be about to name it");
  await stage.pass(240_000);
  assert.equal(await statusOf("serve-speaker-1"), "deleted");
  assert.notEqual(await statusOf("serve-speaker-2"), "deleted");
  await stage.stop();
});
