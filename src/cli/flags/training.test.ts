import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { type Command, parseCommandLine } from "../command.ts";
import type { Settings } from "./settings.ts";
import { settingsFrom, trainingOptions } from "./training.ts";

const command = { options: trainingOptions, positionals: [{ name: "NETWORK" }], examples: [] } as unknown as Command;
const nothing = { fallback: () => undefined } as unknown as Settings;

function settings(...words: string[]) {
  const parsed = parseCommandLine(["net", "--dataset", "data", ...words], command, "dcnr train", nothing);
  return settingsFrom(parsed, "net");
}

describe("the flags of a session", () => {
  it("give its length as steps, epochs or time", () => {
    assert.equal(settings().steps, 200n);
    assert.equal(settings("--steps", "7").steps, 7n);
    const epochs = settings("--epochs", "1.5");
    assert.deepEqual([epochs.steps, epochs.epochs], [0n, 1.5]);
    const time = settings("--time", "10m");
    assert.equal(time.maxRuntimeSeconds, 600);
    assert.ok((time.steps ?? 0n) > 200n, "steps do not end it before its time");
    assert.equal(settings("--time", "90s", "--steps", "5").steps, 5n);
    assert.throws(() => settings("--steps", "5", "--epochs", "1"), /not both/);
  });

  it("are refused where they are no numbers of the right kind", () => {
    for (const words of [
      ["--steps", "1.5"],
      ["--batch", "-1"],
      ["--batch", "0"],
      ["--microbatches", "0"],
      ["--needs-gpus", "0.5"],
      ["--seed", "1e30"],
      ["--warmup", "0.5"],
    ])
      assert.throws(() => settings(...words), new RegExp(`${words[0]} takes a whole number`));
    assert.throws(() => settings("--rate=-1"), /--rate takes a number from 1e-30 to 1000, not "-1"/);
    assert.throws(() => settings("--rate", "0"), /--rate takes a number from/, "which would stand for the usual one");
    assert.throws(() => settings("--replicas", "6"), /--replicas takes a whole number from 1 to 5, not "6"/);
    assert.throws(() => settings("--sync-every", "0"), /--sync-every takes a whole number from 1 to 100000, not "0"/);
    assert.throws(() => settings("--lanes", "2.5"), /--lanes takes a whole number from 1 to 64, not "2.5"/);
    assert.throws(
      () => settings("--numerics", "analog"),
      /--numerics takes native, portable, .* or mixed, not "analog"/,
    );
    assert.throws(() => settings("--schedule", "zigzag"), /--schedule takes constant or cosine, not "zigzag"/);
    assert.throws(() => settings("--time", "soon"), /such as 90s, 10m or 2h/);
  });

  it("leave what is usual to orchestrators where it depends on the network", () => {
    assert.equal(settings("--lanes", "4", "--sync-every", "50").checkpointEvery, 0);
    assert.equal(settings("--checkpoint-every", "20").checkpointEvery, 20);
  });

  it("say whether a session may go on in another numerics class", () => {
    assert.equal(settings("--eras", "on").eras, "on");
    assert.equal(settings().eras, "off");
    assert.throws(() => settings("--eras", "some"), /--eras takes off or on, not "some"/);
  });

  it("say what PNodes must have", () => {
    const own = ["--needs-cpus", "4", "--needs-memory", "2GB", "--needs-region", "eu"];
    const { requirements } = settings(...own, "--needs-gpus", "1", "--needs-gpu-memory", "8GB");
    assert.deepEqual(requirements, {
      cpus: 4,
      gpus: 1,
      gpuMemoryBytes: 8_000_000_000n,
      memoryBytes: 2_000_000_000n,
      region: "eu",
      provider: "",
      trust: "",
      priority: 0,
    });
  });
});
