// Every method of the contract says who may call it, and what it says is listed here a second time: a change of rights is
// seen by whoever reads the change.

import assert from "node:assert/strict";
import { test } from "node:test";
import { type DescService, getOption } from "@bufbuild/protobuf";
import { access, Rule, Scope } from "../src/protocol/gen/dcnr/v1/access_pb.ts";
import { DatasetService, VocabularyService } from "../src/protocol/gen/dcnr/v1/data_pb.ts";
import { ExchangeService } from "../src/protocol/gen/dcnr/v1/exchange_pb.ts";
import { FleetService } from "../src/protocol/gen/dcnr/v1/fleet_pb.ts";
import { InferenceService } from "../src/protocol/gen/dcnr/v1/inference_pb.ts";
import { MembershipService } from "../src/protocol/gen/dcnr/v1/membership_pb.ts";
import { NetworkService } from "../src/protocol/gen/dcnr/v1/network_pb.ts";
import { PNodeService } from "../src/protocol/gen/dcnr/v1/pnode_pb.ts";
import * as serving from "../src/protocol/gen/dcnr/v1/serving_pb.ts";
import { SessionService } from "../src/protocol/gen/dcnr/v1/session_pb.ts";
import { SystemService } from "../src/protocol/gen/dcnr/v1/system_pb.ts";

const services: readonly DescService[] = [
  SystemService,
  NetworkService,
  SessionService,
  DatasetService,
  VocabularyService,
  FleetService,
  MembershipService,
  InferenceService,
  PNodeService,
  ExchangeService,
  ...Object.values(serving).filter(
    (one): one is typeof serving.ServingService => (one as DescService).kind === "service",
  ),
];

test("every method says who may call it", () => {
  for (const service of services)
    for (const method of service.methods) {
      const { rule, scope } = getOption(method, access);
      const name = `${service.name}/${method.name}`;
      assert.notEqual(rule, Rule.UNSPECIFIED, `${name} has no rule: give it option (access)`);
      assert.equal(rule === Rule.KEY, scope !== Scope.UNSPECIFIED, `${name}: a scope belongs to RULE_KEY`);
    }
});

test("nobody changes anything without a key, whatever a method is called", () => {
  const open = services.flatMap((service) =>
    service.methods.filter((method) => getOption(method, access).rule === Rule.OPEN).map(({ name }) => name),
  );
  assert.deepEqual(open.sort(), [
    "GetHealth",
    "GetJoinPolicy",
    "GetNetwork",
    "GetSession",
    "GetStatus",
    "GetVersion",
    "GetVocabulary",
    "ListDatasets",
    "ListEvents",
    "ListMetrics",
    "ListModels",
    "ListNetworks",
    "ListPNodes",
    "ListSessions",
    "ListStepRoots",
    "ListVNodes",
    "ListVocabularies",
    "Pulse",
    "WatchFleet",
    "WatchSession",
  ]);
});
