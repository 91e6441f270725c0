import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { parse } from "yaml";
import { MetricRegistry } from "../../monitoring/registry.ts";
import { ModelLoads } from "../../orchestrator/serving/loads.ts";
import { countAnswers } from "./answers.ts";

test("what is asked of models is told by model, as it waits, comes and ends", () => {
  let nowMs = 0;
  const asked = new ModelLoads({ monotonicMs: () => nowMs, wallMs: () => nowMs });
  const registry = new MetricRegistry();
  countAnswers(registry, asked);
  const told = (line: string) =>
    assert.ok(registry.render().split("\n").includes(line), `${line}\n${registry.render()}`);
  const quick = asked.begin("m", 7);
  const gone = asked.begin("m", 2);
  told('dcnr_model_requests_waiting{model="m"} 2');
  nowMs = 200;
  quick.answered(1);
  told('dcnr_model_requests_waiting{model="m"} 1');
  told('dcnr_model_requests_active{model="m"} 2');
  nowMs = 260;
  quick.answered(2);
  quick.ended("stop");
  quick.ended("failed");
  gone.ended("cancelled");
  told('dcnr_model_requests_total{model="m",outcome="stop"} 1');
  told('dcnr_model_requests_total{model="m",outcome="cancelled"} 1');
  told('dcnr_model_prompt_tokens_total{model="m"} 9');
  told('dcnr_model_tokens_total{model="m"} 3');
  told('dcnr_model_first_token_seconds_bucket{model="m",le="0.1"} 0');
  told('dcnr_model_first_token_seconds_bucket{model="m",le="0.25"} 1');
  // 60 ms for two tokens; whoever left before the first one has no time.
  told('dcnr_model_token_seconds_sum{model="m"} 0.03');
  told('dcnr_model_token_seconds_count{model="m"} 1');
});

interface Rule {
  readonly alert: string;
  readonly expr: string;
  readonly for?: string;
  readonly labels: { readonly severity: string };
  readonly annotations: { readonly summary: string };
}

test("alert rules are what Prometheus reads: names of their own, closed brackets, labels that their query leaves", () => {
  const text = readFileSync("deploy/alerts.yaml", "utf8");
  const { groups } = parse(text) as { groups: { name: string; rules: Rule[] }[] };
  const rules = groups.flatMap((group) => group.rules);
  assert.ok(rules.length >= 7);
  assert.equal(new Set(rules.map(({ alert }) => alert)).size, rules.length);
  for (const { alert, expr, for: lasting, labels, annotations } of rules) {
    assert.match(alert, /^Dcnr[A-Z]\w+$/);
    assert.match(lasting ?? "1m", /^\d+[smh]$/);
    assert.ok(["warning", "critical"].includes(labels.severity), alert);
    let depth = 0;
    for (const character of expr.replace(/"[^"]*"/g, "")) {
      depth += "([{".includes(character) ? 1 : ")]}".includes(character) ? -1 : 0;
      assert.ok(depth >= 0, alert);
    }
    assert.equal(depth, 0, alert);
    assert.match(expr, /(==|>|<) ?[\d.]/, `${alert} compares with something`);
    const kept = new Set([...expr.matchAll(/by \(([^)]*)\)/g)].flatMap(([, names]) => (names as string).split(", ")));
    for (const [, label] of annotations.summary.matchAll(/\$labels\.(\w+)/g))
      assert.ok(kept.has(label as string), `${alert}: ${label}`);
  }
  assert.match(readFileSync("deploy/prometheus.yaml", "utf8"), /rule_files: \[alerts\.yaml\]/);
});
