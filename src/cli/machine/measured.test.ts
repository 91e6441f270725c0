import assert from "node:assert/strict";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { findHardware } from "../../system/machine/hardware.ts";
import type { Measured } from "./measure-machine.ts";
import { measuredVariable, tellingMeasured, toldMeasured } from "./measured.ts";

const found: Measured = { gflops: 30, classes: [{ engine: "native", class: "a" }] };

test("a machine is measured once for all PNodes that a command starts, and they believe it of this machine alone", async () => {
  const directory = await mkdtemp(join(tmpdir(), "dcnr-measured-"));
  const before = process.env[measuredVariable];
  delete process.env[measuredVariable];
  try {
    let measured = 0;
    const measure = async () => {
      measured += 1;
      return found;
    };
    const told = await tellingMeasured(directory, measure);
    assert.deepEqual(await tellingMeasured(directory, measure), told);
    assert.equal(measured, 1, "the second command remembers it");
    const machine = await findHardware(directory);
    assert.deepEqual(toldMeasured(told, machine), found);
    assert.equal(toldMeasured(told, { ...machine, cpuModel: "another" }), undefined);
    process.env[measuredVariable] = told[measuredVariable];
    assert.deepEqual(await tellingMeasured(tmpdir(), () => Promise.reject(new Error("told already"))), told);
  } finally {
    if (before === undefined) delete process.env[measuredVariable];
    else process.env[measuredVariable] = before;
    await rm(directory, { recursive: true, force: true });
  }
});

test("what is told wrongly is as if nothing was", async () => {
  const machine = await findHardware(tmpdir());
  const directory = await mkdtemp(join(tmpdir(), "dcnr-measured-"));
  const { key } = JSON.parse((await tellingMeasured(directory, async () => found))[measuredVariable] ?? "") as {
    key: string;
  };
  await rm(directory, { recursive: true, force: true });
  for (const measured of [
    null,
    {},
    { gflops: "fast", classes: [] },
    { gflops: 3 },
    { gflops: 3, classes: [{ engine: 1 }] },
  ])
    assert.equal(toldMeasured({ [measuredVariable]: JSON.stringify({ key, measured }) }, machine), undefined);
  for (const text of ["", "{", "[]", "7"]) assert.equal(toldMeasured({ [measuredVariable]: text }, machine), undefined);
});
