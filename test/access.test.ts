// Every method of the contract says who may call it, and what it says is listed here a second time: a change of rights is
// seen by whoever reads the change.

import assert from "node:assert/strict";
import { test } from "node:test";
import { getOption } from "@bufbuild/protobuf";
import { command as demo } from "../src/cli/commands/running/demo.ts";
import { command as orchestrator } from "../src/cli/commands/running/orchestrator.ts";
import { command as up } from "../src/cli/commands/running/up.ts";
import { access, Rule, Scope, Subject } from "../src/protocol/gen/dcnr/v1/access_pb.ts";
import { isLoopback, parseAddress } from "../src/protocol/routes/address.ts";
import { contractServices, nameOf } from "./rights/contract.ts";

const services = await contractServices();
const methods = services.flatMap((service) => service.methods);

test("no command listens beyond loopback unless it is told to", () => {
  for (const { options = {} } of [orchestrator, up, demo]) {
    const { default: listen } = options["listen"] as { readonly default?: unknown };
    assert.ok(isLoopback(parseAddress(String(listen)).host), String(listen));
  }
});

test("every method says who may call it", () => {
  assert.ok(services.length >= 12, "the contract is read whole");
  for (const method of methods) {
    const { rule, scope } = getOption(method, access);
    assert.notEqual(rule, Rule.UNSPECIFIED, `${nameOf(method)} has no rule: give it option (access)`);
    assert.equal(rule === Rule.KEY, scope !== Scope.UNSPECIFIED, `${nameOf(method)}: a scope belongs to RULE_KEY`);
  }
});

test("what needs the scope admin and changes something, and whatever deletes, is written to the log of acts", () => {
  const unlogged = methods.filter((method) => {
    const { rule, scope, act } = getOption(method, access);
    const isAdministrative = rule === Rule.KEY && scope === Scope.ADMIN;
    return (isAdministrative || /^(Delete|Stop)/.test(method.name)) && !act;
  });
  assert.deepEqual(unlogged.map(({ name }) => name).sort(), ["DescribeInterval", "ListActs", "ListApiKeys"]);
});

test("a method that is about something names it by a field that there is, so that limited keys are held to it", () => {
  for (const method of methods) {
    const { subject, namedBy, rule } = getOption(method, access);
    if (subject === Subject.UNSPECIFIED) continue;
    assert.equal(rule, Rule.KEY, nameOf(method));
    const field = method.input.fields.find(({ name }) => name === namedBy.split(".", 1)[0]);
    assert.ok(field, `${nameOf(method)} has no field ${namedBy}`);
  }
});

test("nobody changes anything without a key, whatever a method is called", () => {
  const open = methods.filter((method) => getOption(method, access).rule === Rule.OPEN).map(({ name }) => name);
  assert.deepEqual(open.sort(), [
    "GetCaller",
    "GetChallenge",
    "GetHead",
    "GetHealth",
    "GetJoinPolicy",
    "GetNetwork",
    "GetReport",
    "GetSession",
    "GetStatus",
    "GetStudy",
    "GetVersion",
    "GetVocabulary",
    "Introduce",
    "ListBalances",
    "ListBlocks",
    "ListDatasets",
    "ListEvents",
    "ListJobs",
    "ListMembers",
    "ListMetrics",
    "ListModels",
    "ListNetworks",
    "ListPNodes",
    "ListQueues",
    "ListSessions",
    "ListSpending",
    "ListStepRoots",
    "ListStudies",
    "ListVNodes",
    "ListVocabularies",
    "PlanCapacity",
    "ProveKey",
    "Pulse",
    "WatchFleet",
    "WatchSession",
  ]);
});
