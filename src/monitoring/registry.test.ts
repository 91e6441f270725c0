import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { MetricRegistry } from "./registry.ts";

describe("metrics in the text format", () => {
  test("have help, type and a line for each series", () => {
    const registry = new MetricRegistry();
    registry.gauge("dcnr_things", "How many.", () => 3);
    registry.counter("dcnr_falls_total", "Falls.", () => [{ labels: { who: "maple" }, value: 2 }]);
    assert.equal(
      registry.render(),
      [
        "# HELP dcnr_things How many.",
        "# TYPE dcnr_things gauge",
        "dcnr_things 3",
        "# HELP dcnr_falls_total Falls.",
        "# TYPE dcnr_falls_total counter",
        'dcnr_falls_total{who="maple"} 2',
        "",
      ].join("\n"),
    );
  });

  test("are read when they are rendered", () => {
    const registry = new MetricRegistry();
    let value = 1;
    registry.gauge("dcnr_things", "How many.", () => value);
    value = Number.NaN;
    assert.match(registry.render(), /^dcnr_things NaN$/m);
    value = Number.NEGATIVE_INFINITY;
    assert.match(registry.render(), /^dcnr_things -Inf$/m);
  });

  test("escape labels, so that a name from afar cannot forge a line", () => {
    const registry = new MetricRegistry();
    const name = 'a"} 1\ndcnr_forged 1\n\\';
    registry.gauge("dcnr_things", "How many.", () => [{ labels: { name }, value: 1 }]);
    const lines = registry.render().trimEnd().split("\n");
    assert.equal(lines.length, 3);
    assert.equal(lines[2], 'dcnr_things{name="a\\"} 1\\ndcnr_forged 1\\n\\\\"} 1');
  });

  test("of one family are bounded, whatever strangers call themselves", () => {
    const registry = new MetricRegistry();
    const tally = registry.count("dcnr_names_total", "Names.");
    for (let index = 0; index < 12_000; index++) tally.add({ name: `n${index}` });
    assert.equal(registry.render().trimEnd().split("\n").length, 2 + 10_000);
  });

  test("count observations in cumulative buckets", () => {
    const registry = new MetricRegistry();
    const histogram = registry.histogram("dcnr_wait_seconds", "Waits.", [0.1, 1]);
    for (const seconds of [0.05, 0.1, 0.5, 7]) histogram.observe(seconds, { kind: "x" });
    const lines = registry.render().trimEnd().split("\n").slice(2);
    assert.deepEqual(lines, [
      'dcnr_wait_seconds_bucket{kind="x",le="0.1"} 2',
      'dcnr_wait_seconds_bucket{kind="x",le="1"} 3',
      'dcnr_wait_seconds_bucket{kind="x",le="+Inf"} 4',
      'dcnr_wait_seconds_sum{kind="x"} 7.65',
      'dcnr_wait_seconds_count{kind="x"} 4',
    ]);
  });

  test("are registered once, and counters say that they are totals", () => {
    const registry = new MetricRegistry();
    registry.gauge("dcnr_things", "How many.", () => 1);
    assert.throws(() => registry.gauge("dcnr_things", "Again.", () => 1), /once/);
    assert.throws(() => registry.counter("dcnr_falls", "Falls.", () => 1), /_total/);
  });
});
